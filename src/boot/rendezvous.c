/* SPDX-License-Identifier: Apache-2.0 */
/* Meeting where a launcher says: a port or an abstract socket on which rank 0 listens in
 * addition, or a file into which it writes its id. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "boot/auth.h"
#include "boot/dial.h"
#include "boot/meet.h"

#define MS 1000000u

struct place {
	struct meeting meeting;
	const struct boot_env *env;
	const char *setting; /* that says where */
	struct listener *listener;
	struct visits *visits;
	const char *path;  /* of the file */
	struct taut_id id; /* in the file */
};

/* --- A new key for each group that meets at the same place, one after the other --- */

/* Groups that this rank has met there; attempts that failed do not count, since another rank
 * may still be waiting in the same one. */
struct visits {
	struct visits *next;
	uint8_t place[KEY_BYTES];
	int rank; /* threads may be ranks: each counts for itself */
	uint64_t count;
};
static struct visits *visits;

static struct visits *find_visits(const uint8_t place[KEY_BYTES], int rank)
{
	struct visits *v;

	pthread_mutex_lock(&boot_lock);
	for (v = visits; v && (v->rank != rank || memcmp(v->place, place, KEY_BYTES)); v = v->next)
		;
	if (!v) {
		v = mem_calloc(1, sizeof(*v));
		if (v) {
			memcpy(v->place, place, KEY_BYTES);
			v->rank = rank;
			v->next = visits;
			visits = v;
		}
	}
	pthread_mutex_unlock(&boot_lock);
	return v;
}

static enum taut_status name_group(struct place *p)
{
	const struct boot_env *env = p->env;
	uint8_t place[KEY_BYTES], text[KEY_BYTES + 8];

	auth_derive(place, sizeof(place), env->secret, "taut rendezvous place", env->rendezvous,
		    strlen(env->rendezvous));
	p->visits = find_visits(place, env->rank);
	if (!p->visits)
		return fail(TAUT_ERR_NOMEM, "a meeting point");
	memcpy(text, place, KEY_BYTES);
	memcpy(text + KEY_BYTES, &p->visits->count, sizeof(p->visits->count));
	auth_derive(p->meeting.id.key, KEY_BYTES, env->secret, "taut rendezvous key", text, sizeof(text));
	auth_derive(p->meeting.id.secret, SECRET_BYTES, env->secret, "taut rendezvous secret", text, sizeof(text));
	return TAUT_OK;
}

/* --- A port or an abstract socket --- */

static enum taut_status find_target(struct place *p)
{
	struct target *t = &p->meeting.id.meet;
	const char *where = p->env->rendezvous;

	if (strncmp(where, "abstract:", 9))
		return addr_resolve(t, where, p->setting);
	*t = (struct target){ .same_node = true };
	snprintf(t->name, sizeof(t->name), "%s", where + 9);
	return TAUT_OK;
}

static enum taut_status open_listener(struct place *p)
{
	const struct target *t = &p->meeting.id.meet;
	enum taut_status st;

	pthread_mutex_lock(&boot_lock);
	st = service_listen(&p->listener, t->port, t->name, p->setting, p->env->rendezvous);
	pthread_mutex_unlock(&boot_lock);
	return st;
}

static void close_listener(struct place *p)
{
	pthread_mutex_lock(&boot_lock);
	if (p->listener)
		service_unlisten(p->listener);
	p->listener = NULL;
	pthread_mutex_unlock(&boot_lock);
}

static void port_complete(void *ctx)
{
	close_listener(ctx);
}

static enum taut_status meet_at_port(struct boot **out, struct place *p)
{
	struct meeting *m = &p->meeting;
	enum taut_status st = name_group(p);

	if (!st)
		st = find_target(p);
	if (!st && m->rank == 0)
		st = open_listener(p);
	if (st) {
		service_drop();
		return st;
	}
	m->may_come = true;
	m->complete = port_complete;
	m->ctx = p;
	/* The service may end with the meeting, and the listener with it: close it first. */
	m->failed = port_complete;
	st = meet(out, m);
	p->visits->count += !st;
	return st;
}

/* --- A file --- */

static enum taut_status write_id(const char *path, const struct taut_id *id)
{
	char text[TAUT_ID_TEXT_BYTES + 1];
	size_t len = 2 * TAUT_ID_BYTES;
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	ssize_t n;

	if (fd < 0)
		return errno_fail(errno, "make %s, through which the ranks are to meet (TAUT_RENDEZVOUS)", path);
	for (size_t i = 0; i < TAUT_ID_BYTES; i++)
		sprintf(text + 2 * i, "%02x", id->bytes[i]);
	text[len] = '\n';
	n = write(fd, text, len + 1);
	auth_wipe(text, sizeof(text));
	if (close(fd) || n != (ssize_t)len + 1) {
		int err = n < 0 ? errno : ENOSPC;

		unlink(path);
		return errno_fail(err, "write %s", path);
	}
	return TAUT_OK;
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool parse_id(struct taut_id *out, const char *text)
{
	for (size_t i = 0; i < TAUT_ID_BYTES; i++) {
		int hi = hex(text[2 * i]), lo = hi < 0 ? -1 : hex(text[2 * i + 1]);

		if (lo < 0)
			return false;
		out->bytes[i] = (unsigned char)(hi << 4 | lo);
	}
	return true;
}

/* NULL: read. Else why not. */
static const char *read_id(struct taut_id *out, const char *path)
{
	char text[2 * TAUT_ID_BYTES + 2] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	const char *why = NULL;
	struct stat s;
	ssize_t n;

	if (fd < 0)
		return errno == ENOENT ? "it is not there" : strerror(errno);
	if (fstat(fd, &s) || !S_ISREG(s.st_mode))
		why = "it is no regular file";
	else if (s.st_uid != geteuid() || (s.st_mode & 077))
		why = "it belongs to another user, or others may read or write it";
	n = why ? -1 : read(fd, text, sizeof(text) - 1);
	close(fd);
	if (!why && (n < 2 * TAUT_ID_BYTES || !parse_id(out, text)))
		why = "it holds no id";
	auth_wipe(text, sizeof(text));
	return why;
}

static enum taut_status file_ready(void *ctx)
{
	struct place *p = ctx;
	char temp[600];
	enum taut_status st;

	snprintf(temp, sizeof(temp), "%s.%d", p->path, (int)getpid());
	unlink(temp);
	st = write_id(temp, &p->id);
	if (st)
		return st;
	/* Replaces what an earlier run may have left. */
	if (!rename(temp, p->path))
		return TAUT_OK;
	st = errno_fail(errno, "rename %s to %s", temp, p->path);
	unlink(temp);
	return st;
}

static void file_complete(void *ctx)
{
	struct place *p = ctx;
	struct taut_id id;

	/* Not that of a later group. */
	if (!read_id(&id, p->path) && !memcmp(&id, &p->id, sizeof(id)))
		unlink(p->path);
}

/* The id's secret, and the one that was given. */
static enum taut_status take_id(struct place *p, const struct taut_id *id)
{
	struct id_parts *parts = &p->meeting.id;
	enum taut_status st = id_unpack(parts, id);
	uint8_t node[NODE_BYTES];

	if (st)
		return st;
	id_node(node, p->meeting.cfg);
	parts->meet.same_node = !memcmp(node, parts->node, NODE_BYTES);
	if (p->env->secret_given)
		auth_derive(parts->secret, SECRET_BYTES, p->env->secret, "taut file secret", parts->secret,
			    SECRET_BYTES);
	return TAUT_OK;
}

static enum taut_status meet_as_writer(struct boot **out, struct place *p)
{
	struct meeting *m = &p->meeting;
	enum taut_status st = boot_id_create(&p->id, m->cfg);

	if (!st) {
		st = take_id(p, &p->id);
		m->ready = file_ready;
		m->complete = m->failed = file_complete;
		m->ctx = p;
	}
	if (!st)
		return meet(out, m);
	service_drop();
	return st;
}

/* Is rank 0 of the group in the file there, or is the file of an earlier run? */
static enum dial_end try_id(const struct place *p, char *why, size_t len)
{
	const struct meeting *m = &p->meeting;
	struct dial d = { .target = m->id.meet, .deadline = now_ns() + 3000 * MS, .connect_ns = 1000 * MS };
	enum dial_end end;

	d.hello = (struct hello){ .purpose = FOR_PROBE, .to = 0, .from = (uint32_t)m->rank };
	memcpy(d.hello.key, m->id.key, KEY_BYTES);
	memcpy(d.secret, m->id.secret, SECRET_BYTES);
	end = dial(&d);
	buf_cleanup(&d.reply);
	if (end == DIAL_OK)
		close(d.fd);
	snprintf(why, len, "%s", d.why);
	return end;
}

static enum taut_status find_writer(struct place *p, uint64_t deadline)
{
	char why[256] = "";
	enum dial_end end;

	for (;; sleep_ms(20)) {
		const char *not_read = read_id(&p->id, p->path);

		end = DIAL_GONE;
		if (not_read)
			snprintf(why, sizeof(why), "%s", not_read);
		else if (take_id(p, &p->id))
			return TAUT_ERR_ARG;
		else
			end = try_id(p, why, sizeof(why));
		if (end == DIAL_OK)
			return TAUT_OK;
		if (end == DIAL_AUTH)
			return fail(TAUT_ERR_AUTH,
				    "rank 0 at %s and rank %d have different secrets (TAUT_SECRET, TAUT_SECRET_FILE)",
				    p->env->rendezvous, p->meeting.rank);
		if (stop_wanted(p->meeting.cb))
			return fail(TAUT_ERR_ABORTED, "rank %d aborted the group", p->meeting.rank);
		if (now_ns() >= deadline)
			return fail(TAUT_ERR_TIMEOUT, "no rank 0 through %s within %d ms (TAUT_JOIN_TIMEOUT_MS): %s",
				    p->env->rendezvous, p->meeting.timeout_ms, why);
	}
}

static enum taut_status meet_through_file(struct boot **out, struct place *p)
{
	struct meeting *m = &p->meeting;
	uint64_t deadline = now_ns() + (uint64_t)m->timeout_ms * MS;
	enum taut_status st;

	p->path = p->env->rendezvous + 5;
	if (m->rank == 0)
		return meet_as_writer(out, p);
	st = find_writer(p, deadline);
	if (!st)
		return meet(out, m);
	service_drop();
	return st;
}

/* --- Any --- */

static enum taut_status meet_alone(struct boot **out, struct place *p)
{
	auth_random(p->meeting.id.key, KEY_BYTES);
	auth_random(p->meeting.id.secret, SECRET_BYTES);
	return meet(out, &p->meeting);
}

static void warn_weak(const struct boot *b, const struct boot_env *env)
{
	if (!env->secret_given && b->rank == 0 && b->g->table->nodes > 1 && strncmp(env->rendezvous, "file:", 5))
		log_warn(LOG_BOOT,
			 "ranks on %d machines, and the secret that admits them follows from \"%s\": others may guess "
			 "it; set TAUT_SECRET or TAUT_SECRET_FILE",
			 b->g->table->nodes, env->rendezvous);
}

enum taut_status boot_create_env(struct boot **out, const struct boot_env *env, int timeout_ms,
				 const struct config *cfg, const struct boot_callbacks *cb)
{
	struct place p = { .env = env, .meeting = { .rank = env->rank, .size = env->size, .timeout_ms = timeout_ms } };
	enum taut_status st;

	if (env->id_given)
		return boot_create(out, &env->id, env->rank, env->size, timeout_ms, cfg, cb);
	st = meet_check_args(env->rank, env->size, timeout_ms);
	if (!st)
		st = service_hold(cfg);
	if (st)
		return st;
	p.meeting.cfg = cfg;
	p.meeting.cb = cb;
	p.setting = !strcmp(env->launcher, "torchrun") && !cfg->rendezvous[0]
			    ? "from MASTER_ADDR and MASTER_PORT, which"
			    : "TAUT_RENDEZVOUS";
	snprintf(p.meeting.where, sizeof(p.meeting.where), "%s", env->rendezvous);
	if (env->size == 1)
		st = meet_alone(out, &p);
	else if (!strncmp(env->rendezvous, "file:", 5))
		st = meet_through_file(out, &p);
	else
		st = meet_at_port(out, &p);
	auth_wipe(&p, sizeof(p));
	if (!st)
		warn_weak(*out, env);
	return st;
}
