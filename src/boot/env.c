/* SPDX-License-Identifier: Apache-2.0 */
/* Who am I and where do we meet, as the launcher says it. One row a launcher; the first
 * whose variables are there is taken. A meeting point given by hand (TAUT_RENDEZVOUS) and a
 * secret given by hand win over what a launcher implies. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "boot/boot.h"
#include "boot/nodelist.h"

enum { ABSTRACT_MAX = 100, SECRET_FILE_MAX = 65536 };

struct launcher {
	const char *name;
	const char *rank, *size;
	const char *local_rank, *local_size;
	const char *also;   /* (optional) must be set too, for the row to apply */
	const char *job[4]; /* what tells jobs apart, as far as it is set */
	/* Finds env->rendezvous; not called for one rank, nor when it was given by hand. */
	enum taut_status (*meet)(struct boot_env *env, const struct launcher *l);
};

/* --- numbers --- */

static enum taut_status env_int(int *out, const char *name, int lowest)
{
	const char *text = config_env(name);
	char *end;
	long v;

	errno = 0;
	v = strtol(text, &end, 10);
	if (end == text || *end || errno || v < lowest || v > INT_MAX)
		return fail(TAUT_ERR_CONFIG, "%s=%s: expected a whole number from %d", name, text, lowest);
	*out = (int)v;
	return TAUT_OK;
}

static enum taut_status env_int_optional(int *out, const char *name, int lowest)
{
	return name && config_env(name) ? env_int(out, name, lowest) : TAUT_OK;
}

static enum taut_status check_pair(const char *rank_name, int rank, const char *size_name, int size)
{
	if (rank >= 0 && size > 0 && rank >= size)
		return fail(TAUT_ERR_CONFIG, "%s=%d and %s=%d: the rank must be below the size", rank_name, rank,
			    size_name, size);
	return TAUT_OK;
}

static enum taut_status read_ranks(struct boot_env *env, const struct launcher *l)
{
	enum taut_status st;

	if (!config_env(l->size))
		return fail(TAUT_ERR_CONFIG, "%s=%s is set but %s is not: set both or neither", l->rank,
			    config_env(l->rank), l->size);
	st = env_int(&env->rank, l->rank, 0);
	if (!st)
		st = env_int(&env->size, l->size, 1);
	if (!st)
		st = check_pair(l->rank, env->rank, l->size, env->size);
	return st;
}

static enum taut_status read_local(struct boot_env *env, const struct launcher *l)
{
	enum taut_status st = env_int_optional(&env->local_rank, l->local_rank, 0);

	if (!st)
		st = env_int_optional(&env->local_size, l->local_size, 1);
	if (!st)
		st = check_pair(l->local_rank, env->local_rank, l->local_size, env->local_size);
	if (!st && env->local_size > env->size)
		st = fail(TAUT_ERR_CONFIG, "%s=%d and %s=%d: a machine cannot have more ranks than there are",
			  l->local_size, env->local_size, l->size, env->size);
	return st;
}

/* --- meeting points --- */

/* FNV-1a: spreads jobs over ports; no secret is made of it. */
static unsigned hash_text(const char *s)
{
	unsigned h = 2166136261u;

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 16777619u;
	return h ^ h >> 15;
}

static void job_text(const struct launcher *l, char *out, size_t len)
{
	size_t at = (size_t)snprintf(out, len, "%s-%u", l->name, (unsigned)getuid());

	for (size_t i = 0; i < sizeof(l->job) / sizeof(l->job[0]) && l->job[i]; i++)
		if (config_env(l->job[i]) && at < len)
			at += (size_t)snprintf(out + at, len - at, "-%s", config_env(l->job[i]));
}

static enum taut_status meet_on_socket(struct boot_env *env, const char *job)
{
	snprintf(env->rendezvous, sizeof(env->rendezvous), "abstract:taut-%.*s", ABSTRACT_MAX - 5, job);
	return TAUT_OK;
}

static enum taut_status meet_on_port(struct boot_env *env, const char *host, unsigned port)
{
	const char *open = strchr(host, ':') ? "[" : "", *close = *open ? "]" : "";
	int n = snprintf(env->rendezvous, sizeof(env->rendezvous), "%s%s%s:%u", open, host, close, port);

	if (n >= (int)sizeof(env->rendezvous))
		return fail(TAUT_ERR_CONFIG, "host name %.40s... is too long: set TAUT_RENDEZVOUS", host);
	return TAUT_OK;
}

/* Below the ports that the kernel hands out (from 32768). */
static unsigned job_port(const char *job)
{
	return 20000 + hash_text(job) % 10000;
}

static bool one_machine(const struct boot_env *env)
{
	return env->local_size == env->size;
}

static enum taut_status no_meeting_point(const struct launcher *l, const char *why)
{
	return fail(TAUT_ERR_CONFIG,
		    "%s: %s: set TAUT_RENDEZVOUS to HOST:PORT (a free port on the host of rank 0) or to file:PATH",
		    l->name, why);
}

static enum taut_status meet_manual(struct boot_env *env, const struct launcher *l)
{
	(void)l;
	return fail(TAUT_ERR_CONFIG,
		    "rank %d of %d (TAUT_RANK, TAUT_SIZE) does not know where the ranks meet: set TAUT_RENDEZVOUS to "
		    "HOST:PORT (a free port on the host of rank 0) or to file:PATH",
		    env->rank, env->size);
}

/* torch's own store listens on MASTER_PORT, so the ranks meet on the port after it; inside
 * one machine on a socket, because that port may be somebody else's. */
static enum taut_status meet_torchrun(struct boot_env *env, const struct launcher *l)
{
	const char *host = config_env("MASTER_ADDR");
	enum taut_status st;
	char job[256];
	int port = 0;

	if (one_machine(env) && config_env("TORCHELASTIC_RUN_ID")) {
		job_text(l, job, sizeof(job));
		return meet_on_socket(env, job);
	}
	if (!host || !config_env("MASTER_PORT"))
		return no_meeting_point(l, "RANK and WORLD_SIZE are set but MASTER_ADDR or MASTER_PORT is not");
	st = env_int(&port, "MASTER_PORT", 1);
	if (st)
		return st;
	if (port > 65534)
		return fail(TAUT_ERR_CONFIG,
			    "MASTER_PORT=%d: the ranks meet on the port after it, so it must be at most 65534; or set "
			    "TAUT_RENDEZVOUS",
			    port);
	return meet_on_port(env, host, (unsigned)port + 1);
}

/* @addr is an address of this host. */
static bool address_is_mine(const char *addr)
{
	char text[INET6_ADDRSTRLEN];
	struct ifaddrs *all;
	bool mine = false;

	if (getifaddrs(&all))
		return true; /* cannot tell */
	for (struct ifaddrs *a = all; a && !mine; a = a->ifa_next) {
		const void *raw = NULL;

		if (a->ifa_addr && a->ifa_addr->sa_family == AF_INET)
			raw = &((struct sockaddr_in *)(void *)a->ifa_addr)->sin_addr;
		if (a->ifa_addr && a->ifa_addr->sa_family == AF_INET6)
			raw = &((struct sockaddr_in6 *)(void *)a->ifa_addr)->sin6_addr;
		mine = raw && inet_ntop(a->ifa_addr->sa_family, raw, text, sizeof(text)) && !strcmp(text, addr);
	}
	freeifaddrs(all);
	return mine;
}

/* First address of "1093861376.0;tcp://10.0.0.1,192.168.0.1:53381;tcp6://..." */
static bool uri_address(const char *uri, char *out, size_t len)
{
	const char *at = uri ? strstr(uri, "://") : NULL;
	bool bracket;
	size_t n;

	if (!at)
		return false;
	at += 3;
	bracket = *at == '[';
	at += bracket;
	n = strcspn(at, bracket ? "],;" : ":,;");
	if (!n || n >= len)
		return false;
	memcpy(out, at, n);
	out[n] = '\0';
	return true;
}

/* Between machines the only host that the variables name is mpirun's. */
static enum taut_status meet_openmpi(struct boot_env *env, const struct launcher *l)
{
	char job[256], host[128];

	job_text(l, job, sizeof(job));
	if (one_machine(env))
		return meet_on_socket(env, job);
	if (!uri_address(config_env("OMPI_MCA_orte_hnp_uri"), host, sizeof(host)))
		return no_meeting_point(l, "several machines, and no address in OMPI_MCA_orte_hnp_uri");
	if (env->rank == 0 && !address_is_mine(host))
		return no_meeting_point(l, "rank 0 does not run on the host of mpirun");
	return meet_on_port(env, host, job_port(job));
}

/* Name, parent and start time of a process. */
static bool proc_stat(long pid, char name[32], long *parent, unsigned long long *start)
{
	char path[48], text[1024], *open, *close;
	FILE *f;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	open = strchr(text, '(');
	close = strrchr(text, ')'); /* a name may hold brackets */
	if (!open || !close)
		return false;
	snprintf(name, 32, "%.*s", (int)(close - open - 1), open + 1);
	return sscanf(close + 1, " %*c %ld %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
		      parent, start) == 2;
}

/* Hydra sets no variable that tells jobs apart; its proxy is an ancestor of all ranks of a
 * machine. */
static bool hydra_job(char *out, size_t len)
{
	unsigned long long start;
	long pid = getppid(), parent;
	char name[32];

	for (int depth = 0; depth < 64 && pid > 0 && proc_stat(pid, name, &parent, &start); depth++) {
		if (!strncmp(name, "hydra_", 6)) {
			snprintf(out, len, "mpich-%u-%ld-%llu", (unsigned)getuid(), pid, start);
			return true;
		}
		pid = parent;
	}
	return false;
}

static enum taut_status meet_mpich(struct boot_env *env, const struct launcher *l)
{
	char job[256];

	if (!one_machine(env))
		return no_meeting_point(l, "the variables name no host for ranks on several machines");
	if (!hydra_job(job, sizeof(job)))
		return no_meeting_point(l, "no hydra process among the ancestors of this rank");
	return meet_on_socket(env, job);
}

static enum taut_status meet_slurm(struct boot_env *env, const struct launcher *l)
{
	const char *list = config_env("SLURM_STEP_NODELIST"), *self = config_env("SLURMD_NODENAME");
	char job[256], host[256];

	job_text(l, job, sizeof(job));
	if (!list)
		list = config_env("SLURM_NODELIST");
	if (!list)
		list = config_env("SLURM_JOB_NODELIST");
	if (!list)
		return no_meeting_point(l, "neither SLURM_STEP_NODELIST nor SLURM_NODELIST is set");
	if (nodelist_get(list, 0, host, sizeof(host)))
		return fail(TAUT_ERR_CONFIG, "%s: \"%.200s\" is no list of nodes: set TAUT_RENDEZVOUS to HOST:PORT",
			    l->name, list);
	if (nodelist_count(list) == 1)
		return meet_on_socket(env, job);
	if (env->rank == 0 && self && strcmp(self, host))
		return no_meeting_point(l, "rank 0 does not run on the first node of the step");
	return meet_on_port(env, host, job_port(job));
}

/* --- the launchers --- */

/* mpirun inside a Slurm job leaves Slurm's variables of its daemons visible, so MPI's own
 * come first. A batch script has SLURM_PROCID and SLURM_NTASKS but is one process: only a
 * step counts. */
static const struct launcher launchers[] = {
	{ .name = "torchrun",
	  .rank = "RANK",
	  .size = "WORLD_SIZE",
	  .local_rank = "LOCAL_RANK",
	  .local_size = "LOCAL_WORLD_SIZE",
	  .job = { "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_RUN_ID" },
	  .meet = meet_torchrun },
	{ .name = "openmpi",
	  .rank = "OMPI_COMM_WORLD_RANK",
	  .size = "OMPI_COMM_WORLD_SIZE",
	  .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
	  .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE",
	  .job = { "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid" },
	  .meet = meet_openmpi },
	{ .name = "mpich",
	  .rank = "PMI_RANK",
	  .size = "PMI_SIZE",
	  .local_rank = "MPI_LOCALRANKID",
	  .local_size = "MPI_LOCALNRANKS",
	  .also = "MPI_LOCALRANKID",
	  .meet = meet_mpich },
	{ .name = "slurm",
	  .rank = "SLURM_PROCID",
	  .size = "SLURM_STEP_NUM_TASKS",
	  .local_rank = "SLURM_LOCALID",
	  .also = "SLURM_STEP_NUM_TASKS",
	  .job = { "SLURM_JOB_ID", "SLURM_STEP_ID" },
	  .meet = meet_slurm },
	{ .name = "slurm",
	  .rank = "SLURM_PROCID",
	  .size = "SLURM_NTASKS",
	  .local_rank = "SLURM_LOCALID",
	  .also = "SLURM_STEP_ID",
	  .job = { "SLURM_JOB_ID", "SLURM_STEP_ID" },
	  .meet = meet_slurm },
	{ .name = "mpich", .rank = "PMI_RANK", .size = "PMI_SIZE", .meet = meet_mpich },
};
static const struct launcher manual = { .name = "manual",
					.rank = "TAUT_RANK",
					.size = "TAUT_SIZE",
					.local_rank = "TAUT_LOCAL_RANK",
					.local_size = "TAUT_LOCAL_SIZE",
					.meet = meet_manual };
static const struct launcher single = { .name = "single" };

/* `taut run` sets TAUT_RANK and the rest, and a meeting point of this form. */
static const char run_prefix[] = "abstract:taut-run-";

static enum taut_status detect_manual(struct boot_env *env, const struct config *cfg)
{
	enum taut_status st;

	if (cfg->rank < 0 || cfg->size < 1)
		return fail(TAUT_ERR_CONFIG,
			    "TAUT_RANK is %d and TAUT_SIZE is %d: set both (from 0, from 1) or neither", cfg->rank,
			    cfg->size);
	env->rank = cfg->rank;
	env->size = cfg->size;
	if (!strncmp(cfg->rendezvous, run_prefix, sizeof(run_prefix) - 1))
		strcpy(env->launcher, "run");
	st = check_pair(manual.rank, env->rank, manual.size, env->size);
	return st ? st : read_local(env, &manual);
}

static bool applies(const struct launcher *l)
{
	return config_env(l->rank) && (!l->also || config_env(l->also));
}

/* Slurm gives the tasks of all nodes in one list. */
static void slurm_local_size(struct boot_env *env)
{
	const char *counts = config_env("SLURM_STEP_TASKS_PER_NODE"), *node = config_env("SLURM_NODEID");
	int tasks = counts && node ? nodelist_tasks(counts, atol(node)) : -1;

	if (tasks > 0 && tasks <= env->size && tasks > env->local_rank)
		env->local_size = tasks;
}

static enum taut_status detect_launcher(struct boot_env *env, const struct launcher **l)
{
	enum taut_status st;

	*l = &single;
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]) && *l == &single; i++)
		if (applies(&launchers[i]))
			*l = &launchers[i];
	snprintf(env->launcher, sizeof(env->launcher), "%s", (*l)->name);
	if (*l == &single)
		return TAUT_OK;
	st = read_ranks(env, *l);
	if (!st)
		st = read_local(env, *l);
	if (!st && !strcmp((*l)->name, "slurm"))
		slurm_local_size(env);
	return st;
}

/* --- the meeting point given by hand --- */

static bool port_ok(const char *text)
{
	char *end;
	long port = strtol(text, &end, 10);

	return *text >= '0' && *text <= '9' && !*end && port > 0 && port <= 65535;
}

static bool host_port_ok(const char *text)
{
	const char *colon = strrchr(text, ':'), *close;

	if (!colon || colon == text || !port_ok(colon + 1))
		return false;
	if (*text != '[')
		return memchr(text, ':', (size_t)(colon - text)) == NULL;
	close = strchr(text, ']');
	return close && close + 1 == colon && close > text + 1;
}

static bool rendezvous_ok(const char *text)
{
	if (!strncmp(text, "abstract:", 9))
		return text[9] && strlen(text + 9) <= ABSTRACT_MAX;
	if (!strncmp(text, "file:", 5))
		return text[5] == '/';
	return host_port_ok(text);
}

static enum taut_status use_rendezvous(struct boot_env *env, const char *text)
{
	if (!rendezvous_ok(text) || strlen(text) >= sizeof(env->rendezvous))
		return fail(TAUT_ERR_CONFIG,
			    "TAUT_RENDEZVOUS=%s: expected HOST:PORT (an IPv6 address in brackets), file:/PATH or "
			    "abstract:NAME (1 to %d bytes)",
			    text, ABSTRACT_MAX);
	strcpy(env->rendezvous, text);
	return TAUT_OK;
}

/* --- the secret --- */

static void hash_secret(struct boot_env *env, const void *text, size_t len)
{
	crypto_generichash(env->secret, sizeof(env->secret), text, len, NULL, 0);
}

static enum taut_status check_secret_file(int fd, const char *path)
{
	struct stat st;

	if (fstat(fd, &st))
		return errno_fail(errno, "TAUT_SECRET_FILE=%s", path);
	if (!S_ISREG(st.st_mode))
		return fail(TAUT_ERR_CONFIG, "TAUT_SECRET_FILE=%s: not a regular file", path);
	if (st.st_uid != geteuid())
		return fail(TAUT_ERR_CONFIG, "TAUT_SECRET_FILE=%s: belongs to user %u, must belong to this user (%u)",
			    path, (unsigned)st.st_uid, (unsigned)geteuid());
	if (st.st_mode & 077)
		return fail(TAUT_ERR_CONFIG, "TAUT_SECRET_FILE=%s: mode %03o lets others in: chmod 600 it", path,
			    (unsigned)(st.st_mode & 0777));
	return TAUT_OK;
}

/* Reads to the end or until @buf is full. */
static ssize_t read_all(int fd, char *buf, size_t len)
{
	size_t at = 0;

	while (at < len) {
		ssize_t n = read(fd, buf + at, len - at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? n : (ssize_t)at;
		at += (size_t)n;
	}
	return (ssize_t)at;
}

static enum taut_status hash_secret_file(struct boot_env *env, int fd, const char *path)
{
	char *text = mem_calloc(1, SECRET_FILE_MAX);
	enum taut_status st = TAUT_OK;
	ssize_t n;

	if (!text)
		return fail(TAUT_ERR_NOMEM, "TAUT_SECRET_FILE=%s", path);
	n = read_all(fd, text, SECRET_FILE_MAX);
	if (n < 0)
		st = errno_fail(errno, "TAUT_SECRET_FILE=%s: read", path);
	while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r'))
		n--; /* an editor's line end is no part of it */
	if (!st && (n == 0 || n == SECRET_FILE_MAX))
		st = fail(TAUT_ERR_CONFIG, "TAUT_SECRET_FILE=%s: expected 1 to %d bytes", path, SECRET_FILE_MAX - 1);
	if (!st)
		hash_secret(env, text, (size_t)n);
	sodium_memzero(text, SECRET_FILE_MAX);
	mem_free(text);
	return st;
}

static enum taut_status read_secret_file(struct boot_env *env, const char *path)
{
	enum taut_status st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0) {
		errno_fail(errno, "TAUT_SECRET_FILE=%s", path);
		return TAUT_ERR_CONFIG;
	}
	st = check_secret_file(fd, path);
	if (!st)
		st = hash_secret_file(env, fd, path);
	close(fd);
	return st;
}

/* Tells jobs apart, but others on the host may guess it. Open MPI's key is its own secret of
 * the job; it is mixed in where it is known. */
static void derive_secret(struct boot_env *env, const struct launcher *l)
{
	const char *key = config_env("OMPI_MCA_orte_precondition_transports");
	char text[1024];
	size_t n;

	job_text(l, text, sizeof(text) - sizeof(env->rendezvous));
	n = strlen(text);
	n += (size_t)snprintf(text + n, sizeof(text) - n, " %s", env->rendezvous);
	if (n < sizeof(text) && key && !strcmp(l->name, "openmpi"))
		snprintf(text + n, sizeof(text) - n, " %s", key);
	hash_secret(env, text, strlen(text));
}

static enum taut_status find_secret(struct boot_env *env, const struct launcher *l, const struct config *cfg)
{
	env->secret_given = true;
	if (cfg->secret[0] && cfg->secret_file[0])
		return fail(TAUT_ERR_CONFIG, "TAUT_SECRET and TAUT_SECRET_FILE are both set: set one of them");
	if (cfg->secret[0]) {
		hash_secret(env, cfg->secret, strlen(cfg->secret));
		return TAUT_OK;
	}
	if (cfg->secret_file[0])
		return read_secret_file(env, cfg->secret_file);
	env->secret_given = false;
	if (l == &single)
		randombytes_buf(env->secret, sizeof(env->secret));
	else
		derive_secret(env, l);
	return TAUT_OK;
}

enum taut_status boot_env_detect(struct boot_env *out, const struct config *cfg)
{
	struct boot_env env = { .rank = 0, .size = 1, .local_rank = -1, .local_size = -1, .launcher = "manual" };
	const struct launcher *l = &manual;
	enum taut_status st;

	if (sodium_init() < 0)
		return fail(TAUT_ERR_SYS, "libsodium does not start: no source of random bytes");
	st = cfg->rank >= 0 || cfg->size >= 0 ? detect_manual(&env, cfg) : detect_launcher(&env, &l);
	if (!st && cfg->rendezvous[0])
		st = use_rendezvous(&env, cfg->rendezvous);
	else if (!st && env.size > 1)
		st = l->meet(&env, l);
	if (!st)
		st = find_secret(&env, l, cfg);
	if (st)
		return st;
	if (l == &single) {
		env.local_rank = 0;
		env.local_size = 1;
		env.rendezvous[0] = '\0'; /* NCCL_COMM_ID may be there for others */
	}
	*out = env;
	return TAUT_OK;
}
