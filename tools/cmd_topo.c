/* SPDX-License-Identifier: Apache-2.0 */
/* `taut topo`: this machine, for people and as JSON. */
#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "topo/machine.h"

static const char help[] = "usage: taut topo [--json]\n"
			   "\n"
			   "Shows this machine: packages, NUMA nodes, caches and what shares them, cores, memory,\n"
			   "network cards, GPUs, huge pages; of processors, those that this process may use.\n"
			   "What cannot be seen is listed with the reason.\n"
			   "\n"
			   "  --json   as one JSON object\n"
			   "  --help   this text\n";

/* "260 MiB"; three significant digits at most. */
static const char *size_text(uint64_t bytes, char out[16])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double v = (double)bytes;
	int unit = 0;

	for (; v >= 1024 && unit < 4; unit++)
		v /= 1024;
	snprintf(out, 16, v < 10 && v != (double)(int)v ? "%.1f %s" : "%.0f %s", v, units[unit]);
	return out;
}

/* --- text --- */

static void print_label(const struct machine_obj *o)
{
	char size[16];

	printf("%s", o->kind);
	if (o->index >= 0 && strcmp(o->kind, "machine"))
		printf(" %d", o->index);
	if (o->bytes)
		printf(" %s", size_text(o->bytes, size));
	if (*o->name)
		printf(" (%s)", o->name);
}

/* Processors of a core are named in its line. */
static bool ends(const struct machine_obj *o)
{
	return !o->nchildren || !strcmp(o->kind, "core");
}

/* What has one thing below it shares a line with that. */
static void print_tree(const struct machine_obj *o, int depth)
{
	printf("%*s", 2 * depth, "");
	print_label(o);
	for (; o->nchildren == 1 && !ends(o); o = o->children) {
		printf(", ");
		print_label(o->children);
	}
	if (o->nchildren && *o->cpus)
		printf(": cpus %s", o->cpus);
	printf("\n");
	for (int i = 0; i < o->nchildren && !ends(o); i++)
		print_tree(&o->children[i], depth + 1);
}

static void print_speed(long mbit)
{
	if (mbit >= 1000)
		printf(", %g Gbit/s", (double)mbit / 1000);
	else if (mbit > 0)
		printf(", %ld Mbit/s", mbit);
	else
		printf(", speed not known");
}

static void print_device(const struct machine_device *d)
{
	printf("%s %s", d->kind, d->name);
	if (*d->state)
		printf(": %s", d->state);
	if (!strcmp(d->kind, "net"))
		print_speed(d->speed_mbit);
	if (*d->pci && strcmp(d->pci, d->name))
		printf(", PCI %s", d->pci);
	if (d->numa >= 0)
		printf(", numa %d", d->numa);
	if (*d->model)
		printf(" (%s)", d->model);
	printf("\n");
}

static void print_pages(const struct machine *m)
{
	char size[16];

	printf("huge pages: transparent %s, in shared memory %s", *m->thp ? m->thp : "not known",
	       *m->thp_shmem ? m->thp_shmem : "not known");
	for (int i = 0; i < m->npages; i++)
		printf("; %s: %llu of %llu free", size_text(m->pages[i].bytes, size),
		       (unsigned long long)m->pages[i].free, (unsigned long long)m->pages[i].total);
	printf("\n");
}

static void print_count(int n, const char *what)
{
	printf("%d %s%s, ", n, what, n == 1 ? "" : "s");
}

static void print_text(const struct machine *m)
{
	char size[16];

	printf("%s: %s%s%s\n", m->host, m->os, *m->cpu ? ", " : "", m->cpu);
	print_count(m->packages, "package");
	print_count(m->numas, "NUMA node");
	print_count(m->cores, "core");
	print_count(m->cpus, "processor");
	printf("%s%s; memory %s\n", m->all_allowed ? "all may be used: cpus " : "may be used: cpus ",
	       *m->allowed ? m->allowed : "not known", size_text(m->memory, size));
	print_tree(m->root, 0);
	for (int i = 0; i < m->ndevices; i++)
		print_device(&m->devices[i]);
	print_pages(m);
	for (int i = 0; i < m->nnotes; i++)
		printf("not known: %s\n", m->notes[i]);
}

/* --- JSON --- */

static json_t *text_or_null(const char *s)
{
	return *s ? json_string(s) : json_null();
}

static json_t *number_or_null(long v)
{
	return v >= 0 ? json_integer(v) : json_null();
}

static json_t *json_obj(const struct machine_obj *o)
{
	json_t *below = json_array();

	for (int i = 0; i < o->nchildren; i++)
		json_array_append_new(below, json_obj(&o->children[i]));
	return json_pack("{s:s, s:o, s:I, s:s, s:o, s:o}", "kind", o->kind, "index", number_or_null(o->index), "bytes",
			 (json_int_t)o->bytes, "cpus", o->cpus, "name", text_or_null(o->name), "below", below);
}

static json_t *json_device(const struct machine_device *d)
{
	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "name", d->name, "pci", text_or_null(d->pci), "numa",
			 number_or_null(d->numa), "model", text_or_null(d->model), "state", text_or_null(d->state),
			 "speed_mbit", number_or_null(d->speed_mbit));
}

static json_t *json_devices(const struct machine *m, const char *kind)
{
	json_t *array = json_array();

	for (int i = 0; i < m->ndevices; i++)
		if (!strcmp(m->devices[i].kind, kind))
			json_array_append_new(array, json_device(&m->devices[i]));
	return array;
}

static json_t *json_pages(const struct machine *m)
{
	json_t *pools = json_array();

	for (int i = 0; i < m->npages; i++)
		json_array_append_new(pools,
				      json_pack("{s:I, s:I, s:I}", "bytes", (json_int_t)m->pages[i].bytes, "total",
						(json_int_t)m->pages[i].total, "free", (json_int_t)m->pages[i].free));
	return json_pack("{s:o, s:o, s:o}", "transparent", text_or_null(m->thp), "shared_memory",
			 text_or_null(m->thp_shmem), "pools", pools);
}

static json_t *json_notes(const struct machine *m)
{
	json_t *array = json_array();

	for (int i = 0; i < m->nnotes; i++)
		json_array_append_new(array, json_string(m->notes[i]));
	return array;
}

static int print_json(const struct machine *m)
{
	json_t *o = json_pack("{s:s, s:s, s:o, s:i, s:i, s:i, s:i, s:I, s:o, s:b}", "host", m->host, "os", m->os, "cpu",
			      text_or_null(m->cpu), "packages", m->packages, "numa_nodes", m->numas, "cores", m->cores,
			      "processors", m->cpus, "memory_bytes", (json_int_t)m->memory, "allowed",
			      text_or_null(m->allowed), "all_allowed", m->all_allowed);
	int rc;

	json_object_set_new(o, "tree", json_obj(m->root));
	json_object_set_new(o, "nics", json_devices(m, "net"));
	json_object_set_new(o, "rdma", json_devices(m, "rdma"));
	json_object_set_new(o, "gpus", json_devices(m, "gpu"));
	json_object_set_new(o, "huge_pages", json_pages(m));
	json_object_set_new(o, "not_known", json_notes(m));
	rc = o ? json_dumpf(o, stdout, JSON_INDENT(2)) : -1;
	putchar('\n');
	json_decref(o);
	return rc;
}

int cmd_topo(int argc, char **argv)
{
	static const struct option options[] = { { "json", no_argument, NULL, 'j' },
						 { "help", no_argument, NULL, 'h' },
						 { 0 } };
	bool json = false;
	struct machine *m;
	int rc = 0;

	plain_errors(argv[0]);
	for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
		if (c == 'h') {
			fputs(help, stdout);
			return finish_output(argv[0]);
		}
		if (c != 'j')
			return usage_error(argv[0], "bad arguments");
		json = true;
	}
	if (optind < argc)
		return usage_error(argv[0], "unexpected argument \"%s\"", argv[optind]);
	if (machine_load(&m))
		return EXIT_FAILURE;
	if (json)
		rc = print_json(m);
	else
		print_text(m);
	machine_free(m);
	return finish_output(argv[0]) || rc ? EXIT_FAILURE : EXIT_SUCCESS;
}
