/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory between ranks that share no memory: cuda/tunnel.h. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/time.h"
#include "comm/comm.h"
#include "cuda/gpu.h"

#define FAR_CHANNEL 512 /* of the first pair of threads; no exec_link has it */

/* The same on all ranks: two threads find cores, as far as rank 0's machine tells. */
static int count_threads(const struct taut_comm *comm)
{
	int most = 1, n;

	for (int r = 0; r < comm->size; r++) {
		int ranks = 0;

		for (int s = 0; s < comm->size; s++)
			ranks += comm->node_of[r] == comm->node_of[s];
		most = ranks > most ? ranks : most;
	}
	n = comm->machine.cores / (2 * most);
	return n < 1 ? 1 : n > TUNNEL_THREADS ? TUNNEL_THREADS : n;
}

static enum taut_status dial_all(struct taut_comm *comm, int threads, int *out)
{
	enum taut_status st = TAUT_OK;

	for (int k = 0; k < threads && !st; k++)
		for (int p = 0; p < comm->size && !st; p++)
			if (p != comm->rank)
				st = comm_dial_plain(comm, p, FAR_CHANNEL + k, &out[k * comm->size + p]);
	return st;
}

static enum taut_status take_all(struct taut_comm *comm, int threads, int *in)
{
	enum taut_status st = TAUT_OK;

	for (int i = 0; i < threads * comm->size && !st;) {
		struct exec_link l = { .peer = i % comm->size, .channel = FAR_CHANNEL + i / comm->size };

		if (l.peer != comm->rank)
			in[i] = comm_take_dialled(comm, &l);
		if (l.peer == comm->rank || in[i] >= 0) {
			i++;
			continue;
		}
		sleep_ms(1);
		st = comm_check(comm);
	}
	return st;
}

static enum taut_status map_mail(struct taut_comm *comm)
{
	void *p;

	comm->gpu_table_len = gpu_far_bytes(comm->size);
	p = mmap(NULL, comm->gpu_table_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return errno_fail(errno, "cannot map %zu bytes of memory", comm->gpu_table_len);
	madvise(p, comm->gpu_table_len, MADV_HUGEPAGE);
	madvise(p, comm->gpu_table_len, MADV_DONTFORK); /* the GPU writes to these pages */
	memset(p, 0, comm->gpu_table_len);
	comm->gpu_table = p;
	return TAUT_OK;
}

enum taut_status comm_gpu_connect_far(struct taut_comm *comm, const struct gpu_card *cards)
{
	int threads = count_threads(comm), n = threads * comm->size;
	int *sockets = mem_calloc(2 * (size_t)n, sizeof(*sockets));
	struct tunnel_args t = { .nranks = comm->size,
				 .threads = threads,
				 .out = sockets,
				 .in = sockets + n,
				 .spin_ns = comm->net.spin_ns };
	enum taut_status st;

	if (!sockets)
		return fail(TAUT_ERR_NOMEM, "connections to %d ranks", comm->size);
	memset(sockets, -1, 2 * (size_t)n * sizeof(*sockets));
	st = map_mail(comm);
	if (!st)
		st = dial_all(comm, threads, sockets);
	if (!st)
		st = take_all(comm, threads, sockets + n);
	if (st)
		tunnel_close_sockets(&t);
	else
		st = gpu_connect_far(comm->gpu, cards, comm->gpu_table, &t, comm->island_of);
	mem_free(sockets);
	return st;
}
