/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `taut topo`. */
#ifndef TOPO_OPTS_H
#define TOPO_OPTS_H

#include "topo/channels.h"
#include "topo/topo.h"

/* What is asked for; one at a time. */
enum topo_mode {
	TOPO_ALL, /* nothing said */
	TOPO_MATRIX,
	TOPO_TREE,
	TOPO_PATH,
	TOPO_WHY,
	TOPO_JSON,
	TOPO_XML,
	TOPO_GRAPH_XML,
	TOPO_CHANNELS,
	TOPO_BOUND,
	TOPO_SVG,
	TOPO_CAPTURE,
	TOPO_HELP
};

enum { TOPO_NODES_MAX = 65536 };

struct topo_opts {
	enum topo_mode mode;
	const char *mode_name; /* as typed: "--path" */
	const char *a, *b;     /* of --path and --why */
	const char *out;       /* of --svg and --capture */
	const char *file;      /* NULL: this machine */
	enum topo_form form;
	int nodes; /* 0: not given */
	enum channel_pattern pattern;
};

extern const char topo_help[];
/* 0, or the exit status of a command line that was not understood, which it has said. The texts in *@o are @argv's. */
int topo_parse(struct topo_opts *o, int argc, char **argv);

#endif
