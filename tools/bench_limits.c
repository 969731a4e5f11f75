/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_limits.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_opts.h"
#include "cmd.h"
#include "topo/limits.h"

#define NAME "taut bench limits"

static const char help[] =
	"usage: taut bench limits [--json FILE] [--max BYTES] [--quick]\n"
	"\n"
	"What this machine can do: the yardstick for taut bench COLLECTIVE. Rates in GB/s, the best of\n"
	"several repetitions.\n"
	"  copy       bytes copied (each read and written once) by one core, and by all at once\n"
	"  reduce     c[i] = a[i] + b[i] in fp32: bytes of c\n"
	"  core trip  a word from one core to another, one way\n"
	"  TCP        loopback: 8 bytes one way, and the rate each way while both ends send\n"
	"\n"
	"  --max BYTES  largest buffer; default 128M (of the memory: three of it for every core)\n"
	"  --quick      a third of the time for each figure\n"
	"  --json FILE  write the figures as JSON; - is standard output, without the table\n"
	"  --help       this text\n";

struct args {
	const char *json;
	size_t max;
	double point_ms;
	bool help;
};

static int parse(struct args *a, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		bool more = i + 1 < argc;

		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			a->help = true;
		else if (!strcmp(argv[i], "--quick"))
			a->point_ms = 10;
		else if (!strcmp(argv[i], "--json") && more)
			a->json = argv[++i];
		else if (strcmp(argv[i], "--max") || !more)
			return usage_error(NAME, "unknown option, or one without its value: %s", argv[i]);
		else if (bench_parse_bytes(&a->max, argv[++i]))
			return usage_error(NAME, "--max: %s", taut_error_message());
		else if (a->max < 4096 || a->max > (size_t)4 << 30)
			return usage_error(NAME, "--max %s: want 4K to 4G", argv[i]);
	}
	return 0;
}

static void bytes_text(char out[16], size_t bytes)
{
	int unit = 0;

	while (bytes >= 1024 && bytes % 1024 == 0 && unit < 3) {
		bytes /= 1024;
		unit++;
	}
	snprintf(out, 16, "%zu%s", bytes, (const char *[]){ "", "K", "M", "G" }[unit]);
}

static void print_table(const struct limits *l)
{
	printf("# %d processor%s; GB/s against the size of one buffer; where two of them (copy) fit\n", l->cores,
	       l->cores > 1 ? "s" : "");
	printf("%8s  %-6s  %12s %12s  %12s %12s  %12s\n", "buffer", "in", "copy 1 core", "all cores", "reduce 1",
	       "all cores", "TCP each way");
	for (int i = 0; i < l->copy.n; i++) {
		char size[16];

		bytes_text(size, l->copy.p[i].bytes);
		printf("%8s  %-6s  %12.1f %12.1f  %12.1f %12.1f", size, limits_level(2 * l->copy.p[i].bytes),
		       l->copy.p[i].one, l->copy.p[i].all, l->reduce.p[i].one, l->reduce.p[i].all);
		if (i < l->tcp.n)
			printf("  %12.2f", l->tcp.p[i].all);
		printf("\n");
	}
	if (l->trip_us > 0)
		printf("core to core, one way        %10.3f us\n", l->trip_us);
	else
		printf("core to core, one way        not measured: there is one processor\n");
	printf("TCP loopback, 8 bytes one way %9.3f us (congestion control %s)\n", l->tcp_trip_us, l->tcp_congestion);
}

static json_t *curve_json(const struct limits_curve *c)
{
	json_t *a = json_array();

	for (int i = 0; i < c->n; i++)
		json_array_append_new(a, json_pack("{s:I, s:f, s:f}", "bytes", (json_int_t)c->p[i].bytes, "one_gbps",
						   c->p[i].one, "all_gbps", c->p[i].all));
	return a;
}

static int write_json(const struct limits *l, const char *path)
{
	json_t *root = json_pack("{s:i, s:o, s:o, s:o, s:f, s:f, s:s}", "cores", l->cores, "copy", curve_json(&l->copy),
				 "reduce", curve_json(&l->reduce), "tcp", curve_json(&l->tcp), "trip_us", l->trip_us,
				 "tcp_trip_us", l->tcp_trip_us, "tcp_congestion", l->tcp_congestion);
	FILE *f = strcmp(path, "-") ? fopen(path, "we") : stdout;
	bool bad = !root || !f || json_dumpf(root, f, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) ||
		   putc('\n', f) == EOF || fflush(f);

	if (bad)
		fprintf(stderr, "%s: cannot write %s: %s\n", NAME, path, strerror(errno));
	if (f && f != stdout)
		fclose(f);
	json_decref(root);
	return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}

int bench_limits(int argc, char **argv)
{
	struct args a = { .max = (size_t)128 << 20, .point_ms = 30 };
	struct limits_opts lo = { .what = LIMITS_ALL, .min_bytes = 4096 };
	struct limits l;
	int rc = parse(&a, argc, argv);

	if (rc)
		return rc;
	if (a.help) {
		fputs(help, stdout);
		return finish_output(NAME);
	}
	plain_errors(NAME);
	lo.max_bytes = a.max & ~(size_t)4095;
	lo.point_ms = a.point_ms;
	if (limits_measure(&l, &lo))
		return EXIT_FAILURE;
	if (a.json)
		rc = write_json(&l, a.json);
	if (a.json && !strcmp(a.json, "-"))
		return rc;
	print_table(&l);
	return rc ? rc : finish_output(NAME);
}
