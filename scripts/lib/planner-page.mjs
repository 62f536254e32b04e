import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { filesBelow, root } from './places.mjs';
import { StepError } from './step.mjs';

/** The most bytes of the page after gzip. */
const MOST_BYTES = 200_000;

/** The only package whose code a page may have. */
const PACKAGE = join(root, 'node_modules', 'zod', '/');

/** What is never in a page: what needs files, processes or tensors. Everything else of src is allowed. */
const ABSENT = [
  'engine',
  'wire',
  'nn',
  'sharding',
  'training',
  'programs',
  'cell',
  'launch',
  'torch',
  'session',
];

/**
 * Writes the planner as one HTML file that needs no server (docs/how-to/planner-page.md). Returns the file's size and the sources that are
 * in it. Throws: StepError if the page has code that a browser cannot run, or is too large.
 */
export async function buildPlannerPage(outFile) {
  const { html, sources } = await plannerPage();
  const gzipBytes = gzipSync(html).length;
  if (gzipBytes > MOST_BYTES)
    throw new StepError(
      `The planner's page has ${gzipBytes} bytes after gzip; at most ${MOST_BYTES} are allowed.`,
      'find what became reachable from site/planner/page.ts, and remove it',
    );
  mkdirSync(dirname(outFile), { recursive: true });
  writeFileSync(outFile, html);
  return { bytes: Buffer.byteLength(html), gzipBytes, sources };
}

/** Returns the page, its script alone, and the sources whose code is in the script. */
export async function plannerPage() {
  const folder = join(root, 'site', 'planner');
  const { outputFiles, metafile } = await build({
    entryPoints: [join(folder, 'page.ts')],
    absWorkingDir: root,
    bundle: true,
    minify: true,
    format: 'iife',
    target: 'es2022',
    charset: 'utf8',
    write: false,
    metafile: true,
    logLevel: 'silent',
    plugins: [ONLY_WHAT_IS_USED],
  });
  const [output] = Object.values(metafile.outputs);
  const sources = Object.entries(output.inputs)
    .filter(([, { bytesInOutput }]) => bytesInOutput > 0)
    .map(([path]) => path);
  requireForBrowsers(sources, metafile.inputs, output.imports);
  const script = outputFiles[0].text.replaceAll('</script', '<\\/script');
  const style = readFileSync(join(folder, 'style.css'), 'utf8');
  const html = readFileSync(join(folder, 'index.html'), 'utf8')
    .replace('/* style */', () => style)
    .replace('"error rows"', () => JSON.stringify(errorRows()).replaceAll('<', '\\u003c'))
    .replace('/* script */', () => script);
  return { html, script, sources };
}

/**
 * Lets esbuild leave out files of src whose names nobody uses: they only define names. Flats that a page never has, packages other
 * than zod, and modules of node are not followed; `requireForBrowsers` finds those that a used file imports. zod's object `z` has
 * everything of zod, so the names of its module take its place.
 */
const ONLY_WHAT_IS_USED = {
  name: 'only what is used',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^\./ }, ({ path, resolveDir, importer }) => {
      if (importer.startsWith(PACKAGE)) return undefined;
      const target = sourceAt(join(resolveDir, path));
      const isAbsent = ABSENT.some((flat) => target.startsWith(join(SRC, flat, '/')));
      return { path: target, external: isAbsent, sideEffects: !target.startsWith(SRC) };
    });
    onResolve({ filter: /^[^./]/ }, ({ path, importer }) =>
      path === 'zod' || importer.startsWith(PACKAGE)
        ? undefined
        : { path, external: true, sideEffects: false },
    );
    onLoad({ filter: /\.ts$/ }, ({ path }) =>
      path.startsWith(SRC)
        ? {
            contents: readFileSync(path, 'utf8').replace(
              "import { z } from 'zod'",
              "import * as z from 'zod'",
            ),
            loader: 'ts',
          }
        : undefined,
    );
  },
};

/** A package's name stays; a source is named from the clone's folder. */
function shortPath(path) {
  return path.startsWith(SRC) ? relative(root, path) : path;
}

const SRC = join(root, 'src', '/');

/** Returns the file of an import without an ending. */
function sourceAt(path) {
  if (path.endsWith('.json')) return path;
  return existsSync(`${path}.ts`) ? `${path}.ts` : join(path, 'index.ts');
}

/** Throws: StepError if a source whose code is in the page needs what browsers do not have. */
function requireForBrowsers(sources, inputs, imports) {
  const foreign = sources.flatMap((path) =>
    inputs[path].imports
      .filter(({ external }) => external)
      .map((each) => `${path} imports ${shortPath(each.path)}`),
  );
  if (imports.length === 0 && foreign.length === 0) return;
  throw new StepError(
    `The planner's page needs what a browser does not have:\n${foreign.join('\n')}`,
    'move what the page uses to a file without these imports, or pass it as an argument ([Note: surroundings] in src/planner)',
  );
}

const HEADING =
  '| framework | published by | runs | mean error | median ratio | worst ratio | inside the interval |';

/** Returns the lines of the documents' table of errors, which test/planner/trainings computes again. */
function errorRows() {
  const pages = filesBelow(join(root, 'docs')).filter((file) => file.endsWith('.md'));
  const page = pages.find((file) => readFileSync(file, 'utf8').includes(HEADING));
  if (page === undefined)
    throw new StepError(
      `No page of docs has the table of errors by framework, whose heading is ${HEADING}.`,
      'write the heading in scripts/lib/planner-page.mjs as it is in the table',
    );
  const [, after = ''] = readFileSync(page, 'utf8').split(HEADING);
  const rows = after
    .split('\n')
    .slice(2)
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
  const end = rows.findIndex((cells) => cells.length === 0);
  if (end < 1)
    throw new StepError(`${relative(root, page)}: the table of errors has no rows.`, 'correct the table');
  return rows.slice(0, end).map(([framework, source, runs, meanError, medianRatio, worstRatio, inside]) => ({
    ...{ framework, source, runs, meanError, medianRatio, worstRatio, inside },
  }));
}
