/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/models.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

const struct gpu_model gpu_models[] = {
	{ "p100", "Tesla P100", 60, "", 4, 3, 16 },
	{ "p40", "Tesla P40", 61, "", 0, 3, 24 },
	{ "v100", "Tesla V100", 70, "", 6, 3, 0 },
	{ "t4", "Tesla T4", 75, "", 0, 3, 16 },
	{ "a100", "NVIDIA A100", 80, "", 12, 4, 0 },
	{ "a800", "NVIDIA A800", 80, "", 8, 4, 80 },
	{ "a30", "NVIDIA A30", 80, "", 4, 4, 24 },
	{ "a10", "NVIDIA A10", 86, "", 0, 4, 24 },
	{ "a40", "NVIDIA A40", 86, "", 4, 4, 48 },
	{ "l4", "NVIDIA L4", 89, "", 0, 4, 24 },
	{ "l40", "NVIDIA L40", 89, "", 0, 4, 48 },
	{ "l40s", "NVIDIA L40S", 89, "", 0, 4, 48 },
	{ "h20", "NVIDIA H20", 90, "", 18, 5, 0 },
	{ "h800", "NVIDIA H800", 90, "", 8, 5, 80 },
	{ "h100", "NVIDIA H100", 90, "", 18, 5, 80 },
	{ "h200", "NVIDIA H200", 90, "", 18, 5, 141 },
	{ "gh200", "NVIDIA GH200", 90, "", 18, 5, 0 },
	{ "b100", "NVIDIA B100", 100, "", 18, 5, 0 },
	{ "b200", "NVIDIA B200", 100, "", 18, 5, 180 },
	{ "gb200", "NVIDIA GB200", 100, "", 18, 5, 0 },
	{ "b300", "NVIDIA B300", 103, "", 18, 6, 0 },
	{ "gb300", "NVIDIA GB300", 103, "", 18, 6, 0 },
	{ "mi50", "AMD Instinct MI50", 0, "gfx906", 2, 4, 0 },
	{ "mi60", "AMD Instinct MI60", 0, "gfx906", 2, 4, 32 },
	{ "mi100", "AMD Instinct MI100", 0, "gfx908", 3, 4, 32 },
	{ "mi210", "AMD Instinct MI210", 0, "gfx90a", 3, 4, 64 },
	{ "mi250", "AMD Instinct MI250", 0, "gfx90a", 7, 4, 64 },
	{ "mi250x", "AMD Instinct MI250X", 0, "gfx90a", 7, 4, 64 },
	{ "mi300a", "AMD Instinct MI300A", 0, "gfx942", 6, 5, 128 },
	{ "mi300x", "AMD Instinct MI300X", 0, "gfx942", 7, 5, 192 },
	{ "mi325x", "AMD Instinct MI325X", 0, "gfx942", 7, 5, 256 },
	{ "mi350x", "AMD Instinct MI350X", 0, "gfx950", 7, 5, 288 },
	{ "mi355x", "AMD Instinct MI355X", 0, "gfx950", 7, 5, 288 },
	{ NULL, NULL, 0, NULL, 0, 0, 0 },
};

const struct gpu_model *gpu_model_named(const char *word)
{
	for (const struct gpu_model *m = gpu_models; m->word; m++)
		if (!strcasecmp(m->word, word))
			return m;
	return NULL;
}

const struct gpu_model *gpu_model_in(const char *text)
{
	while (*text) {
		char word[16];
		size_t n = 0, used;

		while (isalnum((unsigned char)text[n]))
			n++;
		used = n < sizeof(word) ? n : 0;
		memcpy(word, text, used);
		word[used] = '\0';
		if (used && gpu_model_named(word))
			return gpu_model_named(word);
		text += n ? n : 1;
	}
	return NULL;
}

const char *gpu_gcn_of(uint16_t device)
{
	static const struct {
		uint16_t device;
		const char *gcn;
	} known[] = {
		{ 0x66a0, "gfx906" }, { 0x66a1, "gfx906" }, { 0x738c, "gfx908" }, { 0x738e, "gfx908" },
		{ 0x7408, "gfx90a" }, { 0x740c, "gfx90a" }, { 0x740f, "gfx90a" }, { 0x74a0, "gfx942" },
		{ 0x74a1, "gfx942" }, { 0x74a2, "gfx942" }, { 0x74a5, "gfx942" }, { 0x75a0, "gfx950" },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].device == device)
			return known[i].gcn;
	return "";
}
