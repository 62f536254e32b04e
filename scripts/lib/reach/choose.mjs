import { baseOf, changedDeclarations, changedFiles, repositoryFiles, textAt, textHere } from './changes.mjs';
import { readGraph } from './sources.mjs';

/** What builds, starts and runs the tests: a change of these may change every test. */
const EVERYTHING = /^(package(-lock)?\.json|tsconfig\.json|biome\.json|\.npmrc|\.gitignore|\.ci\/|scripts\/)/;

/**
 * Chooses the tests that a change reaches, out of `tests` (paths of test files). The change is that since `ref`; without a ref,
 * that of the work tree. Returns { tests, changed, why }: `why` says in a line what was chosen, `changed` are the files of the
 * change, and `tests` is undefined if everything has to run.
 */
export function chooseTests(tests, ref) {
  const paths = repositoryFiles();
  const base = baseOf(ref ?? 'HEAD');
  if (paths === undefined || base === undefined) {
    return { why: ref ? `because git knows no ${ref}` : 'because this is no git clone' };
  }
  const changed = changedFiles(base);
  const since = ref === undefined ? 'in the work tree' : `since ${ref}`;
  if (changed.length === 0 && ref === undefined) return { why: 'because the work tree has no change' };
  const broad = changed.find((path) => EVERYTHING.test(path));
  if (broad !== undefined) return { why: `because ${broad} changed ${since}` };
  const graph = readGraph([...new Set([...paths, ...changed])]);
  const found = changed.map((path) => ({
    path,
    declarations: changedDeclarations(graph, path, textAt(base, path), textHere(path)),
  }));
  const unknown = found.find(({ declarations }) => declarations === undefined);
  if (unknown !== undefined)
    return { why: `because no source names ${unknown.path}, which changed ${since}` };
  const declarations = new Set(found.flatMap((each) => each.declarations));
  const chosen = tests.filter((test) => changed.includes(test) || graph.reaches(test, declarations));
  const counts = `${count(changed.length, 'file')} with ${count(declarations.size, 'declaration')}`;
  return {
    tests: chosen,
    changed,
    why: `${chosen.length} of ${tests.length} test files, which reach the change ${since} (${counts})`,
  };
}

function count(number, noun) {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}
