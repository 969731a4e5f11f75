/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/mails.h"

#include <pthread.h>
#include <stdbool.h>

#include "base/mem.h"
#include "cuda/kernels/kernels.h"

#define SPARES 8

static struct mails {
	struct mails *next;
	uint64_t key;
	int here; /* ranks that have not left */
	int n;
	struct mail {
		uint64_t at;
		const struct cu_ctx *ctx;
	} left[GPU_MAX_RANKS];
} * all, *over; /* over: all have left, and there is mail to be freed */
/* Where there is no memory for one, as the ranks that leave have to find it. Not in use: no ranks, no mail. */
static struct mails spare[SPARES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct mails **find(uint64_t key)
{
	struct mails **at = &all;

	while (*at && (*at)->key != key)
		at = &(*at)->next;
	return at;
}

static struct mails *mails_get(void)
{
	struct mails *m = mem_calloc(1, sizeof(*m));

	for (int i = 0; !m && i < SPARES; i++)
		if (!spare[i].here && !spare[i].n)
			m = &spare[i];
	return m;
}

static void mails_put(struct mails *m)
{
	if (m < spare || m >= spare + SPARES)
		mem_free(m);
}

void mails_join(uint64_t key, int ranks)
{
	struct mails *m;

	pthread_mutex_lock(&lock);
	if (!*find(key)) {
		m = mails_get();
		if (m) {
			*m = (struct mails){ .next = all, .key = key, .here = ranks };
			all = m;
		}
	}
	pthread_mutex_unlock(&lock);
}

/* Mail that may be freed now. */
static bool take(struct mail *out, const struct cu_ctx *ctx)
{
	bool found = false, gone = false;

	pthread_mutex_lock(&lock);
	for (struct mails **at = &over; *at && !found; at = gone ? at : &(*at)->next) {
		struct mails *m = *at;
		int i = 0;

		while (i < m->n && all && m->left[i].ctx != ctx)
			i++;
		if (i == m->n)
			continue;
		found = true;
		*out = m->left[i];
		m->left[i] = m->left[--m->n];
		gone = !m->n;
		if (gone) {
			*at = m->next;
			mails_put(m);
		}
	}
	pthread_mutex_unlock(&lock);
	return found;
}

static void leave(uint64_t key, struct mail mail)
{
	struct mails **at, *m;

	pthread_mutex_lock(&lock);
	at = find(key);
	m = *at;
	if (m)
		m->left[m->n++] = mail;
	if (m && !--m->here) {
		*at = m->next;
		m->next = over;
		over = m;
	}
	pthread_mutex_unlock(&lock);
}

void mails_leave(const struct cuda_driver *cu, uint64_t key, uint64_t mail, const struct cu_ctx *ctx)
{
	struct mail m;

	leave(key, (struct mail){ mail, ctx });
	while (take(&m, ctx))
		cu->mem_free(m.at);
}
