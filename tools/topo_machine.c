/* SPDX-License-Identifier: Apache-2.0 */
/* This machine besides its graph: packages, caches, cores, devices, huge pages. */
#include "topo_show.h"

#include <string.h>

static void print_label(FILE *out, const struct machine_obj *o)
{
	char size[16];

	fprintf(out, "%s", o->kind);
	if (o->index >= 0 && strcmp(o->kind, "machine"))
		fprintf(out, " %d", o->index);
	if (o->bytes)
		fprintf(out, " %s", topo_size(o->bytes, size, sizeof(size)));
	if (*o->name)
		fprintf(out, " (%s)", o->name);
}

/* Processors of a core are named in its line. */
static bool ends(const struct machine_obj *o)
{
	return !o->nchildren || !strcmp(o->kind, "core");
}

/* What has one thing below it shares a line with that. */
static void print_tree(FILE *out, const struct machine_obj *o, int depth)
{
	fprintf(out, "%*s", 2 * depth, "");
	print_label(out, o);
	for (; o->nchildren == 1 && !ends(o); o = o->children) {
		fprintf(out, ", ");
		print_label(out, o->children);
	}
	if (o->nchildren && *o->cpus)
		fprintf(out, ": cpus %s", o->cpus);
	fprintf(out, "\n");
	for (int i = 0; i < o->nchildren && !ends(o); i++)
		print_tree(out, &o->children[i], depth + 1);
}

static void print_device(FILE *out, const struct machine_device *d)
{
	char speed[40];

	fprintf(out, "%s %s", d->kind, d->name);
	if (*d->state)
		fprintf(out, ": %s", d->state);
	if (!strcmp(d->kind, "net"))
		fprintf(out, ", %s", topo_speed(d->speed_mbit, speed, sizeof(speed)));
	if (*d->pci && strcmp(d->pci, d->name))
		fprintf(out, ", PCI %s", d->pci);
	if (d->numa >= 0)
		fprintf(out, ", numa %d", d->numa);
	if (*d->model)
		fprintf(out, " (%s)", d->model);
	fprintf(out, "\n");
}

static void print_pages(FILE *out, const struct machine *m)
{
	char size[16];

	fprintf(out, "huge pages: transparent %s, in shared memory %s", *m->thp ? m->thp : "not known",
		*m->thp_shmem ? m->thp_shmem : "not known");
	for (int i = 0; i < m->npages; i++)
		fprintf(out, "; %s: %llu of %llu free", topo_size(m->pages[i].bytes, size, sizeof(size)),
			(unsigned long long)m->pages[i].free, (unsigned long long)m->pages[i].total);
	fprintf(out, "\n");
}

static void print_count(FILE *out, int n, const char *what)
{
	fprintf(out, "%d %s%s, ", n, what, n == 1 ? "" : "s");
}

void topo_print_machine(FILE *out, const struct machine *m)
{
	char size[16];

	fprintf(out, "%s: %s%s%s\n", m->host, m->os, *m->cpu ? ", " : "", m->cpu);
	print_count(out, m->packages, "package");
	print_count(out, m->numas, "NUMA node");
	print_count(out, m->cores, "core");
	print_count(out, m->cpus, "processor");
	fprintf(out, "%s%s; memory %s\n", m->all_allowed ? "all may be used: cpus " : "may be used: cpus ",
		*m->allowed ? m->allowed : "not known", topo_size(m->memory, size, sizeof(size)));
}

void topo_print_machine_tree(FILE *out, const struct machine *m)
{
	print_tree(out, m->root, 0);
	for (int i = 0; i < m->ndevices; i++)
		print_device(out, &m->devices[i]);
	print_pages(out, m);
}

void topo_print_notes(FILE *out, const struct topo_view *v)
{
	for (int i = 0; v->m && i < v->m->nnotes; i++)
		fprintf(out, "not known: %s\n", v->m->notes[i]);
	for (int i = 0; i < v->t->nnotes; i++)
		fprintf(out, "note: %s\n", v->t->notes[i].text);
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

void topo_json_machine(json_t *o, const struct machine *m)
{
	json_object_set_new(o, "host", json_string(m->host));
	json_object_set_new(o, "os", json_string(m->os));
	json_object_set_new(o, "cpu", text_or_null(m->cpu));
	json_object_set_new(o, "packages", json_integer(m->packages));
	json_object_set_new(o, "numa_nodes", json_integer(m->numas));
	json_object_set_new(o, "cores", json_integer(m->cores));
	json_object_set_new(o, "processors", json_integer(m->cpus));
	json_object_set_new(o, "memory_bytes", json_integer((json_int_t)m->memory));
	json_object_set_new(o, "allowed", text_or_null(m->allowed));
	json_object_set_new(o, "all_allowed", json_boolean(m->all_allowed));
	json_object_set_new(o, "tree", json_obj(m->root));
	json_object_set_new(o, "rdma", json_devices(m, "rdma"));
	json_object_set_new(o, "huge_pages", json_pages(m));
	json_object_set_new(o, "not_known", json_notes(m));
}
