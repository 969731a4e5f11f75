/* SPDX-License-Identifier: Apache-2.0 */
/* Processor time of the search of channels, which has one thread; the median of several runs on each machine.
 *
 *   build/channels_bench [FILE | "gpu:8xh100 nvswitch:4 nic:8x400G"]...
 *
 * Without arguments: machines in words, and those of tests/golden/nccl-topo when run from the source folder.
 */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "topo/channels.h"

enum { RUNS = 7 };

static const char *const in_words[] = {
	"numa:2 switch:4 gpu:8xv100 mesh:cube nic:4x100G:ib cpu:intel",
	"numa:8 switch:8 gpu:8xa100 nvswitch:6 nic:8x200G:ib cpu:amd",
	"numa:2 switch:4 gpu:8xh100 nvswitch:4 nic:8x400G:ib cpu:intel",
	"numa:2 switch:8 gpu:8xmi300x mesh:full nic:8x400G:roce cpu:amd",
	"numa:2 switch:4 gpu:16xv100 nvswitch:12 nic:8x100G:ib cpu:intel",
	"numa:2 switch:8 gpu:16xv100 mesh:full nic:8x100G:ib cpu:intel",
	"mnnvl:18 numa:2 gpu:4xgb200 nvswitch:9 nic:4x400G:ib",
	"numa:4 gpu:10xl40s pcie:gen4 nic:10x100G:roce cpu:amd",
};

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The median in ms; the total of what was found in *@total, below 0 when nothing was. */
static double median(const struct topo *t, const struct topo_paths *p, const struct channels_req *req, double *total)
{
	double ms[RUNS];

	for (int i = 0; i < RUNS; i++) {
		struct channels *c;
		double from = now_ms();

		*total = -1;
		if (channels_find(&c, t, p, req))
			return 0;
		ms[i] = now_ms() - from;
		*total = c->total_gbps;
		channels_free(c);
	}
	qsort(ms, RUNS, sizeof(*ms), by_value);
	return ms[RUNS / 2];
}

static void line(const char *name, const struct topo *t, const struct topo_paths *p)
{
	printf("%-60.60s %3d gpus %2d ports", name, t->count[TOPO_GPU], t->count[TOPO_NET]);
	for (int pattern = PATTERN_RING; pattern >= PATTERN_BALANCED_TREE; pattern -= 3)
		for (int nnodes = 1; nnodes <= 1000; nnodes += 999) {
			struct channels_req req = {
				.pattern = (enum channel_pattern)pattern, .nnodes = nnodes, .cross_nic = 2, .pxn = true
			};
			double total, ms;

			if (nnodes > 1 && !t->count[TOPO_NET])
				continue;
			ms = median(t, p, &req, &total);
			printf(" | %s %4d %8.2f ms %6.1f GB/s", pattern == PATTERN_RING ? "ring" : "tree", nnodes, ms,
			       total);
		}
	printf("\n");
}

static int machine(const char *name)
{
	struct topo *t = NULL;
	struct topo_paths *p = NULL;
	int rc = 1;

	if (topo_read_file(&t, name, TOPO_FORM_AUTO) || paths_create(&p, t, &path_rules_default))
		fprintf(stderr, "%s\n", taut_error_message());
	else
		rc = 0;
	if (!rc && t->count[TOPO_GPU])
		line(name, t, p);
	paths_free(p);
	topo_free(t);
	return rc;
}

int main(int argc, char **argv)
{
	glob_t files = { 0 };
	int rc = 0;

	for (int i = 1; i < argc; i++)
		rc |= machine(argv[i]);
	if (argc > 1)
		return rc;
	for (size_t i = 0; i < sizeof(in_words) / sizeof(in_words[0]); i++)
		rc |= machine(in_words[i]);
	if (!glob("tests/golden/nccl-topo/*.xml", 0, NULL, &files))
		for (size_t i = 0; i < files.gl_pathc; i++)
			rc |= machine(files.gl_pathv[i]);
	globfree(&files);
	return rc;
}
