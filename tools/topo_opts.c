/* SPDX-License-Identifier: Apache-2.0 */
#include "topo_opts.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "cmd.h"

const char topo_help[] =
	"usage: taut topo [WHAT] [--file FILE [--form FORM]] [--nodes N]\n"
	"\n"
	"Shows a machine: without WHAT its packages, cores, memory, the matrix of distances between GPUs\n"
	"and network cards, caches, devices, and what is not known; of processors, those that this process\n"
	"may use. Of a FILE: the matrix, the tree, and what is not known. WHAT is one of\n"
	"\n"
	"  -m, --matrix          the matrix alone, as `nvidia-smi topo -m` prints it\n"
	"  -t, --tree            NUMA nodes, PCI switches, GPUs, cards, ports, with the speeds of their links\n"
	"  -p, --path A B        every link on the way from A to B, the class of the path, the bottleneck\n"
	"  -w, --why A B         which wire works between A and B; if not, why not, and what would cure it\n"
	"  -j, --json            everything as one JSON object\n"
	"  -x, --xml             NCCL's topology XML, for NCCL_TOPO_FILE\n"
	"  -g, --graph-xml       NCCL's graph XML: the channels of ring, tree and NVLS\n"
	"  -c, --channels [ring|tree]  the rings (or trees) that the search finds, with bandwidths\n"
	"  -b, --bound           the bandwidth of all rings together, what the links allow, what limits it\n"
	"  -s, --svg FILE        a drawing, written to FILE; -: standard output\n"
	"      --capture FILE    what is needed to see this machine elsewhere, without serial numbers, names\n"
	"                        of hosts and addresses, written to FILE; -: standard output\n"
	"\n"
	"  -f, --file FILE       the machine that FILE describes: NCCL's or hwloc's XML, the text of\n"
	"                        `nvidia-smi topo -m` or `rocm-smi --showtopo`, a capture, a folder that\n"
	"                        holds a copy of /sys, or a description as in\n"
	"                        \"numa:2 gpu:8 nvlink:18 nvswitch:4 nic:8x400G\", in a file or in place of\n"
	"                        its name; -: standard input\n"
	"      --form FORM       form of FILE: nccl, hwloc, nvidia-smi, text, capture; default: auto\n"
	"  -n, --nodes N         N machines of that kind, joined by their ports\n"
	"  -h, --help            this text\n"
	"\n"
	"A and B are gpu0, NIC0 (as the matrix numbers them), mlx5_0, eth0, numa0, or a PCI address.\n"
	"As the ranks of a job (taut run -n 4 taut topo, srun, torchrun), without options: each kind of\n"
	"machine once, with its hosts, by rank 0. TAUT_TOPO_FILE takes the place of --file. Exit status:\n"
	"0, 1 when something failed, 2 usage.\n";

enum { OPT_CAPTURE = 256, OPT_FORM };

/* The names of modes stand here in the order of enum topo_mode, first TOPO_MATRIX. */
static const struct option options[] = {
	{ "matrix", no_argument, NULL, 'm' },
	{ "tree", no_argument, NULL, 't' },
	{ "path", required_argument, NULL, 'p' },
	{ "why", required_argument, NULL, 'w' },
	{ "json", no_argument, NULL, 'j' },
	{ "xml", no_argument, NULL, 'x' },
	{ "graph-xml", no_argument, NULL, 'g' },
	{ "channels", optional_argument, NULL, 'c' },
	{ "bound", no_argument, NULL, 'b' },
	{ "svg", required_argument, NULL, 's' },
	{ "capture", required_argument, NULL, OPT_CAPTURE },
	{ "help", no_argument, NULL, 'h' },
	{ "file", required_argument, NULL, 'f' },
	{ "form", required_argument, NULL, OPT_FORM },
	{ "nodes", required_argument, NULL, 'n' },
	{ 0 },
};

static const char *const mode_names[] = {
	"",	      "--matrix", "--tree", "--path",	 "--why",  "--json", "--xml", "--graph-xml",
	"--channels", "--bound",  "--svg",  "--capture", "--help",
};

static enum topo_mode mode_of(int c)
{
	for (int i = 0; i < TOPO_HELP; i++)
		if (options[i].val == c)
			return (enum topo_mode)(i + 1);
	return TOPO_ALL;
}

static int set_mode(struct topo_opts *o, const char *name, enum topo_mode mode)
{
	if (mode == TOPO_HELP || o->mode == TOPO_HELP) {
		o->mode = TOPO_HELP;
		return 0;
	}
	if (o->mode != TOPO_ALL && o->mode != mode)
		return usage_error(name, "%s and %s: one at a time", o->mode_name, mode_names[mode]);
	if (o->mode == mode)
		return usage_error(name, "%s: twice", mode_names[mode]);
	o->mode = mode;
	o->mode_name = mode_names[mode];
	return 0;
}

/* The word after the option that getopt has just returned, unless that is an option. */
static const char *next_word(int argc, char **argv)
{
	if (optind >= argc || argv[optind][0] == '-')
		return NULL;
	return argv[optind++];
}

static int take_pair(struct topo_opts *o, int argc, char **argv)
{
	o->a = optarg;
	o->b = next_word(argc, argv);
	return o->b ? 0
		    : usage_error(argv[0], "%s %s: needs two nodes, as in %s gpu0 gpu1", o->mode_name, o->a,
				  o->mode_name);
}

static int take_pattern(struct topo_opts *o, int argc, char **argv)
{
	const char *word = optarg ? optarg : next_word(argc, argv);

	o->pattern = PATTERN_RING;
	if (!word || !strcmp(word, "ring"))
		return 0;
	o->pattern = PATTERN_BALANCED_TREE;
	return strcmp(word, "tree") ? usage_error(argv[0], "--channels %s: ring or tree is wanted", word) : 0;
}

static int take_nodes(struct topo_opts *o, const char *name)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(optarg, &end, 10);
	if (end == optarg || *end || errno || n < 1 || n > TOPO_NODES_MAX)
		return usage_error(name, "--nodes %s: a number from 1 to %d is wanted", optarg, TOPO_NODES_MAX);
	o->nodes = (int)n;
	return 0;
}

static int take_form(struct topo_opts *o, const char *name)
{
	const char *near;

	for (int i = 0; i < TOPO_FORMS; i++)
		if (!strcmp(optarg, topo_form_names[i])) {
			o->form = (enum topo_form)i;
			return 0;
		}
	near = nearest_name(optarg, topo_form_names, TOPO_FORMS);
	if (near)
		return usage_error(name, "--form %s: no such form; did you mean \"%s\"?", optarg, near);
	return usage_error(name, "--form %s: auto, nccl, hwloc, nvidia-smi, text or capture is wanted", optarg);
}

static int take_file(struct topo_opts *o, const char *name)
{
	if (o->file)
		return usage_error(name, "--file: twice (%s, %s)", o->file, optarg);
	if (!*optarg)
		return usage_error(name, "--file: the name is empty");
	o->file = optarg;
	return 0;
}

static int take(struct topo_opts *o, int c, int argc, char **argv)
{
	int rc;

	if (c == 'f')
		return take_file(o, argv[0]);
	if (c == OPT_FORM)
		return take_form(o, argv[0]);
	if (c == 'n')
		return take_nodes(o, argv[0]);
	if (c == '?' || !mode_of(c))
		return usage_error(argv[0], "bad arguments");
	rc = set_mode(o, argv[0], mode_of(c));
	if (rc)
		return rc;
	if (o->mode == TOPO_PATH || o->mode == TOPO_WHY)
		return take_pair(o, argc, argv);
	if (o->mode == TOPO_CHANNELS)
		return take_pattern(o, argc, argv);
	o->out = optarg;
	return 0;
}

/* What makes no sense together. */
static int check(const struct topo_opts *o, const char *name)
{
	static const bool with_nodes[] = { [TOPO_ALL] = true,	   [TOPO_JSON] = true,	[TOPO_GRAPH_XML] = true,
					   [TOPO_CHANNELS] = true, [TOPO_BOUND] = true, [TOPO_HELP] = true };

	if (o->form && !o->file)
		return usage_error(name, "--form: goes with --file");
	if (o->mode == TOPO_CAPTURE && o->file)
		return usage_error(name, "--capture and --file: this machine is captured, not a file");
	if (o->nodes > 1 && !with_nodes[o->mode])
		return usage_error(name, "%s and --nodes: %s is of one machine", o->mode_name, o->mode_name);
	if (o->out && !*o->out)
		return usage_error(name, "%s: the name of the file is empty", o->mode_name);
	return 0;
}

int topo_parse(struct topo_opts *o, int argc, char **argv)
{
	int rc;

	*o = (struct topo_opts){ .pattern = PATTERN_RING };
	/* + : words are taken where they stand. */
	for (int c; (c = getopt_long(argc, argv, "+mtp:w:jxgc::bs:f:n:h", options, NULL)) != -1;) {
		rc = take(o, c, argc, argv);
		if (rc || o->mode == TOPO_HELP)
			return rc;
	}
	if (optind < argc)
		return usage_error(argv[0], "unexpected argument \"%s\"", argv[optind]);
	return check(o, argv[0]);
}
