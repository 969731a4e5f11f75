/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/memory.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/time.h"
#include "taut/taut.h"
#include "topo/limits.h"

enum {
	MOST_CORES = 16, /* as a rule enough to keep the memory busy */
	KEY_MAX = 1200,
	TEXT_MAX = KEY_MAX + 200,
	MBPS_MAX = 100000000,
};
/* Of all cores together more than a last-level cache holds (with half of it, this gave twice the rate
 * of memory), and little enough to be had at once in a container. */
#define BUFFERS ((size_t)128 << 20)
#define BUFFER ((size_t)16 << 20) /* one of the two of a core, at most */

/* --- What the figures depend on --- */

/* /proc/cpuinfo would tell both, and takes milliseconds on some kernels. */
#if defined(__x86_64__)
#include <cpuid.h>

static void cpu_name(char *out, size_t len)
{
	uint32_t words[13] = { 0 };
	const char *name = (const char *)words;

	for (unsigned i = 0; i < 3; i++)
		if (!__get_cpuid(0x80000002u + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2],
				 &words[4 * i + 3]))
			words[4 * i] = 0;
	snprintf(out, len, "%s", name + strspn(name, " "));
}
#else
static void cpu_name(char *out, size_t len)
{
	size_t got = 0;

	if (file_read(&got, out, len - 1, "/sys/devices/system/cpu/cpu0/regs/identification/midr_el1"))
		got = 0;
	out[got] = '\0';
}
#endif

/* As text on one line, without blanks at its end. */
static void plain(char *s)
{
	size_t len = strlen(s);

	while (len && (s[len - 1] <= ' ' || s[len - 1] > '~'))
		s[--len] = '\0';
	for (; *s; s++)
		if (*s < ' ' || *s > '~')
			*s = ' ';
}

void memory_speed_key(char *out, size_t len)
{
	int cpus[LIMITS_MAX_CORES], n = limits_machine_cpus(cpus, LIMITS_MAX_CORES);
	char name[80];
	size_t at;

	cpu_name(name, sizeof(name));
	plain(name);
	at = (size_t)snprintf(out, len, "%s, cpus ", name);
	for (int i = 0; i < n && at + 16 < len; i++) {
		int first = i;

		while (i + 1 < n && cpus[i + 1] == cpus[i] + 1)
			i++;
		at += (size_t)snprintf(out + at, len - at, first < i ? "%s%d-%d" : "%s%d", first ? "," : "",
				       cpus[first], cpus[i]);
	}
	if (at < len)
		snprintf(out + at, len - at, ", taut %d", taut_version());
}

/* --- The file --- */

size_t memory_speed_print(char *out, size_t len, const struct memory_speed *s, const char *key)
{
	/* Whole numbers: the program's locale has no part in them. */
	return (size_t)snprintf(out, len,
				"taut.memory 1\n# copies beyond the caches, measured once; remove the file to have it "
				"done again\nmachine %s\ncores %d\none_mbps %ld\nall_mbps %ld\n",
				key, s->cores, (long)(s->one * 1e3), (long)(s->all * 1e3));
}

/* The rest of @text after @word; NULL when it begins with something else. */
static const char *after(const char *text, const char *word)
{
	size_t n = strlen(word);

	return text && !strncmp(text, word, n) ? text + n : NULL;
}

static const char *number(long *out, const char *text, const char *name, long max)
{
	const char *p = after(text, name);
	int digits = 0;

	*out = 0;
	for (; p && *p >= '0' && *p <= '9' && digits < 10; p++, digits++)
		*out = *out * 10 + (*p - '0');
	return digits && *out >= 1 && *out <= max ? after(p, "\n") : NULL;
}

bool memory_speed_parse(struct memory_speed *out, const char *text, const char *key)
{
	const char *p = after(text, "taut.memory 1\n");
	long cores, one, all;

	while (p && *p == '#') {
		p += strcspn(p, "\n");
		p += *p == '\n';
	}
	p = after(after(after(p, "machine "), key), "\n");
	p = number(&cores, p, "cores ", MOST_CORES);
	p = number(&one, p, "one_mbps ", MBPS_MAX);
	p = number(&all, p, "all_mbps ", MBPS_MAX);
	if (!p || *p)
		return false;
	*out = (struct memory_speed){ .cores = (int)cores, .one = (double)one / 1e3, .all = (double)all / 1e3 };
	return true;
}

static uint64_t hash(const char *s)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 0x100000001b3u;
	return h;
}

static bool read_file(struct memory_speed *out, const char *path, const char *key)
{
	char text[TEXT_MAX];
	size_t got;

	if (file_read(&got, text, sizeof(text) - 1, path))
		return false;
	text[got] = '\0';
	return memory_speed_parse(out, text, key);
}

/* --- Measuring --- */

enum taut_status memory_speed_measure(struct memory_speed *out)
{
	int cpus[LIMITS_MAX_CORES], n = limits_machine_cpus(cpus, LIMITS_MAX_CORES);
	struct limits_opts o = { .what = LIMITS_COPY, .whole_machine = true, .brief = true };
	struct limits l;
	enum taut_status st;

	o.cores = n < MOST_CORES ? n : MOST_CORES;
	o.max_bytes = BUFFERS / 2 / (size_t)o.cores;
	o.max_bytes = o.min_bytes = o.max_bytes < BUFFER ? o.max_bytes : BUFFER;
	st = limits_measure(&l, &o);
	if (!st)
		*out = (struct memory_speed){ .cores = l.cores, .one = l.copy.p[0].one, .all = l.copy.p[0].all };
	return st;
}

/* Figures that others took part in would stay wrong. */
static bool busy(double *load)
{
	return getloadavg(load, 1) == 1 && *load > (double)sysconf(_SC_NPROCESSORS_ONLN);
}

static bool measure_and_keep(struct memory_speed *out, const char *path, const char *key, char *note, size_t len)
{
	uint64_t begin = now_ns();
	char text[TEXT_MAX];
	int err = file_can_replace(path);
	double load;

	if (err) {
		snprintf(note, len, "not measured, as %s cannot be written: %s", path, strerror(err));
		return false;
	}
	if (busy(&load)) {
		snprintf(note, len, "not measured, as the machine is busy (load %.1f)", load);
		return false;
	}
	if (memory_speed_measure(out)) {
		snprintf(note, len, "not measured: %.200s", taut_error_message());
		return false;
	}
	err = file_replace(path, text, memory_speed_print(text, sizeof(text), out, key));
	snprintf(note, len, "measured in %.1f ms, %s %s%s%s", (double)(now_ns() - begin) / 1e6,
		 err ? "not kept in" : "kept in", path, err ? ": " : "", err ? strerror(err) : "");
	return true;
}

bool memory_speed_get(struct memory_speed *out, char *note, size_t len)
{
	char key[KEY_MAX], name[64], path[PATH_MAX];

	memory_speed_key(key, sizeof(key));
	snprintf(name, sizeof(name), "memory-%016llx.txt", (unsigned long long)hash(key));
	if (file_cache_path(path, sizeof(path), name) || !*path) {
		snprintf(note, len, "not measured, as there is no cache folder (XDG_CACHE_HOME, HOME)");
		return false;
	}
	if (!read_file(out, path, key))
		return measure_and_keep(out, path, key, note, len);
	snprintf(note, len, "from %s", path);
	return true;
}

/* More than were measured are taken to do as well, each. */
double memory_speed_each(const struct memory_speed *s, int busy)
{
	double all = s->all / s->cores;

	if (busy >= s->cores || s->cores < 2)
		return all;
	return s->one + (all - s->one) * (busy - 1) / (s->cores - 1);
}
