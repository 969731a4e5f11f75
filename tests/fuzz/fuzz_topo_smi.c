/* SPDX-License-Identifier: Apache-2.0 */
/* Text as nvidia-smi's matrix (or rocm-smi's tables): a sound graph or a sentence; a matrix that some tree has, without
 * cells to mend, comes back. */
#include <string.h>

#include "fuzz.h"

#include "topo/rocm_text.h"
#include "topo/smi.h"
#include "topo/smi_text.h"

static bool has_note(const struct topo *t, const char *part)
{
	for (int i = 0; i < t->nnotes; i++)
		if (strstr(t->notes[i].text, part))
			return true;
	return false;
}

/* The GPUs of the graph have the matrix of the text; a cell that is not known may be anything. */
static void check_gpus(const struct topo *t, const struct smi_matrix *m)
{
	for (int i = 0; i < m->n; i++)
		for (int j = 0; j < m->n; j++) {
			const struct smi_cell *want = &m->cell[i * m->n + j];
			int a = m->dev[i].gpu ? topo_find(t, m->dev[i].label) : -1;
			int b = m->dev[j].gpu ? topo_find(t, m->dev[j].label) : -1;
			int nv, class = a < 0 || b < 0 ? -1 : (int)smi_class_of(t, a, b, &nv);

			must(class < 0 || want->class < 0 || (class == want->class && nv == want->nv));
		}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct smi_matrix *m = NULL;
	struct topo *t = NULL;
	char why[256];

	log_set_sink(drop_line, NULL);
	if (topo_from_smi(&t, "fuzz", (const char *)data, len)) {
		must(!t && *taut_error_message());
		return 0;
	}
	must(t && !topo_check(t, why, sizeof(why)));
	if (!rocm_is_text((const char *)data, len) && !has_note(t, "no PCI tree") &&
	    !smi_parse(&m, "fuzz", (const char *)data, len))
		check_gpus(t, m);
	smi_matrix_free(m);
	topo_free(t);
	return 0;
}
