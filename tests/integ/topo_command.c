/* SPDX-License-Identifier: Apache-2.0 */
/* `taut topo`: its answers are those of tests/golden/cli, one file a case: "$ taut topo ARGUMENTS", and what that
 * prints (TAUT_UPDATE_GOLDEN=1 writes them anew); JSON and drawings are well-formed and tell the same; files are
 * there whole or not at all; what is wrong is told. */
#include <expat.h>
#include <glob.h>
#include <jansson.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "run_taut.h"
#include "topo/paths.h"

#define GOLDEN "tests/golden/"

static char folder[64];

static void cleanup(void)
{
	char command[96];

	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	if (system(command))
		fprintf(stderr, "%s is left\n", folder);
}

static char *in_folder(const char *name)
{
	static char paths[4][128];
	static int next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
	return path;
}

static char *load(const char *path)
{
	static char text[OUTPUT_MAX];
	FILE *f = fopen(path, "r");
	size_t n;

	CHECK(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	return text;
}

static void save(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	CHECK(f && fputs(text, f) >= 0 && !fclose(f));
}

static struct ran *must(struct ran *r, int code)
{
	if (r->code != code)
		fprintf(stderr, "status %d: %s%s", r->code, r->err, r->out);
	CHECK(r->code == code);
	return r;
}

/* --- golden --- */

enum { WORDS = 24 };

/* Splits at blanks; '...' is one word. */
static void split(char *line, char **words)
{
	int n = 0;

	for (char *s = line; *s && n < WORDS - 1;) {
		char end = *s == '\'' ? '\'' : ' ';

		s += end == '\'';
		words[n++] = s;
		s = strchr(s, end);
		if (!s)
			break;
		*s++ = '\0';
		s += *s == ' ';
	}
	words[n] = NULL;
}

/* The first line that differs. */
static void tell_difference(const char *path, const char *want, const char *now)
{
	int line = 2;

	for (; *want && *want == *now; want++, now++)
		line += *want == '\n';
	while (line > 2 && want[-1] != '\n') {
		want--;
		now--;
	}
	fprintf(stderr, "%s:%d: was: %.*s\n%s:%d: is:  %.*s\n", path, line, (int)strcspn(want, "\n"), want, path, line,
		(int)strcspn(now, "\n"), now);
}

static int golden_case(const char *path, bool update)
{
	char head[512], line[512], *words[WORDS + 1] = { NULL };
	char *text = load(path);
	struct ran *r;

	CHECK(!strncmp(text, "$ taut topo ", 12) && strchr(text, '\n'));
	snprintf(head, sizeof(head), "%.*s", (int)strcspn(text, "\n"), text);
	snprintf(line, sizeof(line), "%s", head + 7); /* "topo ..." */
	split(line, words + 1);
	r = must(taut_run(words), 0);
	CHECK(!*r->err);
	if (!strcmp(text + strlen(head) + 1, r->out))
		return 0;
	if (update) {
		FILE *f = fopen(path, "w");

		CHECK(f && fprintf(f, "%s\n%s", head, r->out) > 0 && !fclose(f));
		return 0;
	}
	tell_difference(path, text + strlen(head) + 1, r->out);
	return 1;
}

static void answers_are_golden(void)
{
	bool update = getenv("TAUT_UPDATE_GOLDEN") != NULL;
	int wrong = 0;
	glob_t g;

	CHECK(!glob(GOLDEN "cli/*.txt", 0, NULL, &g) && g.gl_pathc >= 20);
	for (size_t i = 0; i < g.gl_pathc; i++)
		wrong += golden_case(g.gl_pathv[i], update);
	globfree(&g);
	CHECK(!wrong);
}

/* What nvidia-smi printed on that machine, without the codes that underline its head. */
static void the_matrix_is_that_of_nvidia_smi(void)
{
	static char want[OUTPUT_MAX];
	const char *s = load(GOLDEN "nvidia-smi-topo/h200x2-vm.txt");
	size_t n = 0;

	for (; *s; s++) {
		if (*s == '\033')
			s += strcspn(s, "m");
		else
			want[n++] = *s;
	}
	want[n] = '\0';
	CHECK(!strcmp(must(TAUT("topo", "--file", GOLDEN "capture/h200x2-guest.cap", "--matrix"), 0)->out, want));
}

/* --- JSON --- */

static const char *const inputs[] = {
	GOLDEN "capture/h200x2-guest.cap",
	GOLDEN "nccl-topo/oci-bm.gpu.h100.8.xml",
	GOLDEN "nccl-topo/azure-ndv4-8xA100.xml",
	GOLDEN "nccl-topo/8x3090-fdr-ib.xml",
	GOLDEN "nccl-topo/rocm-8p_940.xml",
	GOLDEN "nccl-topo/4xada-pcie-61nets.xml",
	GOLDEN "nvidia-smi-topo/a100x8-10nic-dgx-style.txt",
	"numa:2 gpu:8xv100 nvlink:6 mesh:cube switch:4 nic:4x100G",
	"mnnvl:2 numa:2 cpu:arm gpu:4xgb200 nvlink:18 nvswitch:9 nic:4x400G",
	"numa:1",
};
enum { INPUTS = sizeof(inputs) / sizeof(inputs[0]) };

static const json_t *cell(const json_t *paths, const char *matrix, size_t i, size_t j)
{
	return json_array_get(json_array_get(json_object_get(paths, matrix), i), j);
}

static bool is_class(const char *word)
{
	for (int i = 0; i < PATH_CLASSES; i++)
		if (word && !strcmp(path_class_names[i], word))
			return true;
	return false;
}

static void check_paths(const json_t *paths, size_t ends)
{
	size_t n = json_array_size(json_object_get(paths, "ids"));

	CHECK(n == ends);
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++) {
			CHECK(is_class(json_string_value(cell(paths, "class", i, j))));
			CHECK(json_equal(cell(paths, "class", i, j), cell(paths, "class", j, i)));
			CHECK(json_equal(cell(paths, "bw_gbps", i, j), cell(paths, "bw_gbps", j, i)));
			CHECK(cell(paths, "hops", i, j) && cell(paths, "smi", i, j) && cell(paths, "via", i, j));
			CHECK(json_is_null(cell(paths, "bw_gbps", i, i)));
		}
}

/* The ids of nodes and the ends of links are those that --path takes. */
static void check_ids(const json_t *o, const char *file)
{
	const json_t *ids = json_object_get(json_object_get(o, "paths"), "ids");
	const char *a = json_string_value(json_array_get(ids, 0));
	size_t n = json_array_size(ids);

	for (size_t i = 0; i<n; i += n> 12 ? n / 6 : 1) {
		const char *b = json_string_value(json_array_get(ids, i));

		must(TAUT("topo", "-f", (char *)file, "--path", (char *)a, (char *)b), 0);
	}
}

static json_t *json_of(const char *file)
{
	struct ran *r = must(TAUT("topo", "--file", (char *)file, "--json"), 0);
	json_t *o = json_loads(r->out, 0, NULL);

	CHECK(json_is_object(o));
	return o;
}

static void json_tells_all(void)
{
	for (int i = 0; i < INPUTS; i++) {
		json_t *o = json_of(inputs[i]);
		size_t gpus = json_array_size(json_object_get(o, "gpus")), nics, numa, k;
		json_t *link;

		nics = json_array_size(json_object_get(o, "nics"));
		numa = json_array_size(json_object_get(o, "numa"));
		CHECK(numa > 0 && json_is_array(json_object_get(o, "notes")));
		check_paths(json_object_get(o, "paths"), gpus + nics + numa);
		check_ids(o, inputs[i]);
		json_array_foreach(json_object_get(o, "links"), k, link)
		{
			CHECK(json_is_string(json_object_get(link, "a")));
			CHECK(json_is_string(json_object_get(link, "b")));
			CHECK(json_number_value(json_object_get(link, "bw_gbps")) > 0);
		}
		json_decref(o);
	}
}

static void json_of_this_machine_keeps_its_keys(void)
{
	static const char *const keys[] = { "host", "os",	  "cpu",       "packages",     "numa_nodes", "cores",
					    "tree", "processors", "allowed",   "all_allowed",  "nics",	     "rdma",
					    "gpus", "huge_pages", "not_known", "memory_bytes", "paths",	     "links" };
	json_t *o = json_loads(must(TAUT("topo", "--json"), 0)->out, 0, NULL);

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (!json_object_get(o, keys[i]))
			fprintf(stderr, "key %s\n", keys[i]);
		CHECK(json_object_get(o, keys[i]));
	}
	CHECK(json_integer_value(json_object_get(o, "processors")) > 0);
	json_decref(o);
}

/* --- drawings --- */

struct rect {
	char class[8];
	double x, y, w, h;
};
struct svg {
	int n, gpus;
	bool title;
	double w, h;
	struct rect rects[4096];
};

static const char *attribute(const char **attrs, const char *name)
{
	for (; *attrs; attrs += 2)
		if (!strcmp(attrs[0], name))
			return attrs[1];
	return NULL;
}

static double number(const char **attrs, const char *name)
{
	const char *text = attribute(attrs, name);

	CHECK(text);
	return strtod(text, NULL);
}

static void on_start(void *ctx, const char *name, const char **attrs)
{
	struct svg *s = ctx;
	const char *class = attribute(attrs, "class");
	struct rect *r = &s->rects[s->n];

	if (!strcmp(name, "svg")) {
		s->w = number(attrs, "width");
		s->h = number(attrs, "height");
	}
	s->title |= !strcmp(name, "text") && class && !strcmp(class, "title");
	if (strcmp(name, "rect") != 0 || !class)
		return;
	CHECK(s->n < 4096 && strlen(class) < sizeof(r->class));
	snprintf(r->class, sizeof(r->class), "%s", class);
	r->x = number(attrs, "x");
	r->y = number(attrs, "y");
	r->w = number(attrs, "width");
	r->h = number(attrs, "height");
	CHECK(r->w > 0 && r->h > 0 && r->x >= 0 && r->y >= 0 && r->x + r->w <= s->w && r->y + r->h <= s->h);
	s->gpus += !strcmp(class, "gpu");
	s->n++;
}

static struct svg *parse_svg(const char *text)
{
	static struct svg s;
	XML_Parser p = XML_ParserCreate(NULL);

	s = (struct svg){ 0 };
	XML_SetUserData(p, &s);
	XML_SetStartElementHandler(p, on_start);
	if (XML_Parse(p, text, (int)strlen(text), 1) != XML_STATUS_OK) {
		fprintf(stderr, "line %lu: %s\n", XML_GetCurrentLineNumber(p), XML_ErrorString(XML_GetErrorCode(p)));
		CHECK(!"well-formed");
	}
	XML_ParserFree(p);
	CHECK(s.title);
	return &s;
}

static bool apart(const struct rect *a, const struct rect *b)
{
	return a->x + a->w < b->x || b->x + b->w < a->x || a->y + a->h < b->y || b->y + b->h < a->y;
}

static bool inside(const struct rect *a, const struct rect *b)
{
	return a->x > b->x && a->y > b->y && a->x + a->w < b->x + b->w && a->y + a->h < b->y + b->h;
}

/* Boxes do not touch; but those of a NUMA node stand in its box, all the way. */
static void check_boxes(const struct svg *s, const char *what)
{
	for (int i = 0; i < s->n; i++)
		for (int j = 0; j < i; j++) {
			const struct rect *a = &s->rects[i], *b = &s->rects[j];
			bool numa = !strcmp(a->class, "numa") != !strcmp(b->class, "numa");

			if (apart(a, b) || (numa && (inside(a, b) || inside(b, a))))
				continue;
			fprintf(stderr, "%s: %s at %g %g and %s at %g %g overlap\n", what, a->class, a->x, a->y,
				b->class, b->x, b->y);
			CHECK(!"apart");
		}
}

static struct svg *drawing_of(const char *file)
{
	struct svg *s = parse_svg(must(TAUT("topo", "-f", (char *)file, "--svg", "-"), 0)->out);

	check_boxes(s, file);
	return s;
}

static void drawings_are_sound(void)
{
	char text[160];

	for (int i = 0; i < INPUTS; i++) {
		json_t *o = json_of(inputs[i]);

		CHECK(drawing_of(inputs[i])->gpus == (int)json_array_size(json_object_get(o, "gpus")));
		json_decref(o);
	}
	for (int gpus = 1; gpus <= 16; gpus++) {
		snprintf(text, sizeof(text), "numa:%d gpu:%dxh100 nvlink:18 nvswitch:4 nic:%dx400G switch:%d",
			 gpus % 4 + 1, gpus, gpus % 11, gpus % 3 * (gpus % 4 + 1));
		CHECK(drawing_of(text)->gpus == gpus);
	}
}

/* A card's name that XML would take for its own. */
static void names_are_escaped(void)
{
	static const char matrix[] = "\tGPU0\tNIC0\tCPU Affinity\nGPU0\t X \tPIX\t0-3\nNIC0\tPIX\t X \n\n"
				     "NIC Legend:\n\n  NIC0: <&\"'>]]>\n";
	struct ran *r;

	save(in_folder("odd.txt"), matrix);
	r = must(TAUT("topo", "-f", in_folder("odd.txt"), "--svg", "-"), 0);
	CHECK(parse_svg(r->out)->gpus == 1);
	CHECK(strstr(r->out, "&#60;&#38;&#34;'&#62;]]&#62;"));
}

/* --- files --- */

static int files_in_folder(void)
{
	DIR *dir = opendir(folder);
	int n = 0;

	CHECK(dir);
	for (struct dirent *e = readdir(dir); e; e = readdir(dir))
		n += *e->d_name != '.';
	closedir(dir);
	return n;
}

static void files_are_whole_or_not_there(void)
{
	int before = files_in_folder();
	struct stat s;

	must(TAUT("topo", "-f", "gpu:2", "-s", in_folder("a.svg")), 0);
	CHECK(!stat(in_folder("a.svg"), &s) && s.st_size > 1000 && files_in_folder() == before + 1);
	CHECK(!chmod(in_folder("a.svg"), 0600));
	must(TAUT("topo", "-f", "gpu:3", "-s", in_folder("a.svg")), 0);
	CHECK(parse_svg(load(in_folder("a.svg")))->gpus == 3);
	CHECK(!stat(in_folder("a.svg"), &s) && (s.st_mode & 0777) == 0600);
	CHECK(strstr(must(TAUT("topo", "-f", "gpu:2", "-s", "/dev/full"), 1)->err, "/dev/full"));
	CHECK(strstr(must(TAUT("topo", "-f", "gpu:2", "-s", folder), 1)->err, folder));
	CHECK(strstr(must(TAUT("topo", "-f", "gpu:2", "-s", in_folder("no/b.svg")), 1)->err, "b.svg"));
	must(TAUT("topo", "-f", in_folder("none.xml"), "-s", in_folder("c.svg")), 1);
	must(TAUT("topo", "-f", "gpu:2", "-p", "gpu0", "gpu7"), 2);
	CHECK(files_in_folder() == before + 1);
}

static void xml_is_read_back(void)
{
	static char matrix[OUTPUT_MAX];

	for (int i = 0; i < INPUTS - 2; i++) { /* NCCL's form knows one machine, and has a GPU */
		snprintf(matrix, sizeof(matrix), "%s", must(TAUT("topo", "-f", (char *)inputs[i], "-m"), 0)->out);
		save(in_folder("again.xml"), must(TAUT("topo", "-f", (char *)inputs[i], "--xml"), 0)->out);
		CHECK(!strcmp(must(TAUT("topo", "-f", in_folder("again.xml"), "-m"), 0)->out, matrix));
	}
}

static void a_capture_shows_this_machine(void)
{
	static char tree[OUTPUT_MAX];

	snprintf(tree, sizeof(tree), "%s", must(TAUT("topo", "--tree"), 0)->out);
	CHECK(strstr(tree, "NUMA"));
	must(TAUT("topo", "--capture", in_folder("this.cap")), 0);
	CHECK(!strcmp(must(TAUT("topo", "--file", in_folder("this.cap"), "--tree"), 0)->out, tree));
	setenv("TAUT_TOPO_FILE", in_folder("this.cap"), 1);
	CHECK(!strcmp(must(TAUT("topo", "--tree"), 0)->out, tree));
	unsetenv("TAUT_TOPO_FILE");
}

static void this_machine_is_shown(void)
{
	const char *out = must(TAUT("topo"), 0)->out;

	CHECK(strstr(out, " processor") && strstr(out, "memory ") && strstr(out, "\nhuge pages: "));
	CHECK(strstr(out, "no GPU and no RDMA port") || strstr(out, "CPU Affinity"));
}

/* --- what is wrong --- */

static void wrong_lines_are_told(void)
{
	static char *const bad[][4] = {
		{ "--matrix", "--json" },  { "--tree", "--tree" },
		{ "--path", "gpu0" },	   { "--why", "gpu0", "--json" },
		{ "--channels", "rings" }, { "--nodes", "0" },
		{ "--nodes", "2x" },	   { "--nodes", "2", "--tree" },
		{ "--form", "nccl" },	   { "--capture", "x.cap", "--file", "gpu:2" },
		{ "--file", "" },	   { "--svg", "" },
		{ "--nonsense" },	   { "gpu0" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct ran *r = must(TAUT("topo", bad[i][0], bad[i][1], bad[i][2], bad[i][3]), 2);

		CHECK(strstr(r->err, "taut topo --help") && !*r->out);
	}
	CHECK(strstr(must(TAUT("topo", "-f", "gpu:2", "--form", "ncl"), 2)->err, "\"nccl\""));
}

static void unknown_nodes_are_told(void)
{
	const char *err = must(TAUT("topo", "-f", "gpu:2 nic:2x100G", "--path", "gpu0", "mlx5_7"), 2)->err;

	CHECK(strstr(err, "no node \"mlx5_7\"") && strstr(err, "did you mean \"mlx5_"));
	CHECK(strstr(err, "gpu0, gpu1, mlx5_0, mlx5_1, numa0"));
	CHECK(strstr(must(TAUT("topo", "-f", "gpu:2 nvlink:2 nvswitch:1", "--why", "nvs0", "gpu1"), 2)->err, "nvs0"));
}

static void broken_files_are_told(void)
{
	save(in_folder("broken.xml"), "<system version=\"1\">\n  <cpu numaid=\"0\">\n</system>\n");
	CHECK(strstr(must(TAUT("topo", "-f", in_folder("broken.xml")), 1)->err, "broken.xml:3:"));
	CHECK(strstr(must(TAUT("topo", "-f", in_folder("absent.xml")), 1)->err, "absent.xml"));
	CHECK(strstr(must(TAUT("topo", "-f", "numa:1", "--matrix"), 1)->err, "no GPU"));
}

static void strict_makes_a_fall_back_an_error(void)
{
	setenv("TAUT_STRICT", "1", 1);
	must(TAUT("topo", "-f", "gpu:2xh100 nvlink:18 nvswitch:4"), 0);
	setenv("TAUT_P2P_DISABLE", "1", 1);
	CHECK(strstr(must(TAUT("topo", "-f", "gpu:2xh100 nvlink:18 nvswitch:4"), 1)->err, "TAUT_P2P_DISABLE"));
	must(TAUT("topo", "-f", "gpu:2xh100 nvlink:18 nvswitch:4", "--matrix"), 1);
	must(TAUT("topo", "-f", "gpu:2xh100 nvlink:18 nvswitch:4", "--json"), 1);
	must(TAUT("topo", "-f", "gpu:2xh100 nvlink:18 nvswitch:4", "--tree"), 0);
	unsetenv("TAUT_P2P_DISABLE");
	unsetenv("TAUT_STRICT");
}

static void help_is_one(void)
{
	static char text[OUTPUT_MAX];

	snprintf(text, sizeof(text), "%s", must(TAUT("topo", "--help"), 0)->out);
	CHECK(strstr(text, "--path A B"));
	CHECK(!strcmp(must(TAUT("help", "topo"), 0)->out, text));
	CHECK(!strcmp(must(TAUT("topo", "-f", "gpu:2", "-h"), 0)->out, text));
}

int main(void)
{
	taut_command(); /* or skip */
	snprintf(folder, sizeof(folder), "/tmp/taut-test-topo-command-%d", (int)getpid());
	CHECK(mkdir(folder, 0700) == 0);
	atexit(cleanup);
	unsetenv("TAUT_TOPO_FILE");
	unsetenv("NCCL_TOPO_FILE");
	answers_are_golden();
	the_matrix_is_that_of_nvidia_smi();
	json_tells_all();
	json_of_this_machine_keeps_its_keys();
	drawings_are_sound();
	names_are_escaped();
	files_are_whole_or_not_there();
	xml_is_read_back();
	a_capture_shows_this_machine();
	this_machine_is_shown();
	wrong_lines_are_told();
	unknown_nodes_are_told();
	broken_files_are_told();
	strict_makes_a_fall_back_an_error();
	help_is_one();
	return 0;
}
