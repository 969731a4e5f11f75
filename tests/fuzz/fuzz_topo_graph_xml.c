/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's graph XML for a machine of two GPUs and two ports: channels with each GPU once, which come back from their own
 * text, or a sentence. */
#include <string.h>

#include "fuzz.h"

#include "base/mem.h"
#include "topo/channels.h"

static void check_form(const struct topo *t, const struct channels *c)
{
	must(c->n >= 0 && c->n <= CHANNELS_MAX && c->ngpus == 2);
	for (int i = 0; i < c->n; i++) {
		const struct channel *ch = &c->ch[i];

		must(ch->gpus[0] != ch->gpus[1]);
		for (int k = 0; k < 2; k++)
			must(t->nodes[ch->gpus[k]].kind == TOPO_GPU);
		must((ch->net_in < 0) == (ch->net_out < 0));
		must(ch->net_in < 0 || t->nodes[ch->net_in].kind == TOPO_NET);
		must(ch->bw_gbps >= 0 && ch->bw_gbps <= 1e6);
	}
}

/* Numbers lose digits when they are written first; after that nothing changes. */
static void check_again(const struct topo *t, const struct channels *c)
{
	struct channels *again = NULL;
	char *first, *second;

	must(!channels_to_xml(&first, t, &c, 1));
	must(!channels_from_xml(&again, t, c->pattern, "again", first, strlen(first)));
	must(!channels_to_xml(&second, t, (const struct channels *const *)&again, 1));
	must(!strcmp(first, second));
	mem_free(second);
	channels_free(again);
	mem_free(first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const char machine[] = "gpu:2xh100 mesh:full nic:2x100G";
	struct topo *t = NULL;

	log_set_sink(drop_line, NULL);
	must(!topo_from_text(&t, "fuzz", machine, sizeof(machine) - 1));
	for (int pattern = PATTERN_BALANCED_TREE; pattern <= PATTERN_COLLNET; pattern++) {
		struct channels *c = NULL;

		if (channels_from_xml(&c, t, (enum channel_pattern)pattern, "fuzz", (const char *)data, len)) {
			must(!c && *taut_error_message());
			continue;
		}
		check_form(t, c);
		check_again(t, c);
		channels_free(c);
	}
	topo_free(t);
	return 0;
}
