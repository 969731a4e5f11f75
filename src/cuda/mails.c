/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/mails.h"

#include <pthread.h>

#include "base/mem.h"
#include "cuda/kernels/kernels.h"

static struct mails {
	struct mails *next;
	uint64_t key;
	int here; /* ranks that have not left */
	int n;
	uint64_t left[GPU_MAX_RANKS];
} * all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct mails **find(uint64_t key)
{
	struct mails **at = &all;

	while (*at && (*at)->key != key)
		at = &(*at)->next;
	return at;
}

void mails_join(uint64_t key, int ranks)
{
	struct mails *m;

	pthread_mutex_lock(&lock);
	if (!*find(key)) {
		m = mem_calloc(1, sizeof(*m));
		if (m) {
			*m = (struct mails){ .next = all, .key = key, .here = ranks };
			all = m;
		}
	}
	pthread_mutex_unlock(&lock);
}

void mails_leave(const struct cuda_driver *cu, uint64_t key, uint64_t mail)
{
	struct mails **at, *m;

	pthread_mutex_lock(&lock);
	at = find(key);
	m = *at;
	if (m) {
		m->left[m->n++] = mail;
		if (--m->here)
			m = NULL;
		else
			*at = m->next;
	}
	pthread_mutex_unlock(&lock);
	for (int i = 0; m && i < m->n; i++)
		cu->mem_free(m->left[i]); /* of any context */
	mem_free(m);
}
