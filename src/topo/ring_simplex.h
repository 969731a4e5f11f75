/* SPDX-License-Identifier: Apache-2.0 */
/* The linear program of topo/ring_pack.h: largest sum of rates, each resource within its capacity. Revised simplex
 * method with the inverse kept; columns come one at a time. */
#ifndef TOPO_RING_SIMPLEX_H
#define TOPO_RING_SIMPLEX_H

#include <stdbool.h>

#include "base/status.h"

struct ring_simplex;
enum taut_status ring_simplex_create(struct ring_simplex **out, int rows);
void ring_simplex_free(struct ring_simplex *s);
/* Nothing has a rate yet. */
void ring_simplex_begin(struct ring_simplex *s, const double *cap);
/* What one more GB/s of each resource would bring; good until the next call. */
const double *ring_simplex_prices(const struct ring_simplex *s);
/* Column @id with @load on each resource gets the rate that gains most; false: it cannot enter. */
bool ring_simplex_enter(struct ring_simplex *s, int id, const double *load);
/* Leaves some of a resource free where that gains; false: nowhere. */
bool ring_simplex_release(struct ring_simplex *s);
/* Multiplications since it was created: a clock that runs the same on every rank. */
double ring_simplex_work(const struct ring_simplex *s);
double ring_simplex_total(const struct ring_simplex *s);
void ring_simplex_rates(const struct ring_simplex *s, double *rate, int n);

#endif
