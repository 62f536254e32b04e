import { currentDisplay } from '../../../src/cell';
import type { MagicsThatRun } from '../../compiler/magic-table';
import type { ExecutionId } from '../protocol';
import { changeFolder, environment, runNpm, writeText } from './process';
import { runScript, runShellLine } from './shell';
import { time, timeit } from './timing';

/** A magic of a cell: what follows its name in the line, and the text of the cell below or the code to time. */
interface Call {
  readonly text: string;
  readonly body: string | (() => unknown) | undefined;
  /** Folder of the notebook. */
  readonly baseDir: string;
  /** The execution that the magic is part of. */
  readonly execution: ExecutionId;
}

type Executed = MagicsThatRun<'text' | 'line' | 'timing'>;

/** What each magic does that the executor performs. A magic may return a value, which is the value of its line. */
const RUNS: Readonly<Record<Executed, (call: Call) => unknown>> = {
  bash: ({ body }) => runScript('bash', String(body)),
  sh: ({ text, body }) => (body === undefined ? runShellLine(text) : runScript('sh', String(body))),
  html: ({ body }) => show('text/html', body),
  markdown: ({ body }) => show('text/markdown', body),
  latex: ({ body }) => show('text/latex', body),
  javascript: ({ body }) => show('application/javascript', body),
  writefile: ({ text, body }) => writeText(text, String(body)),
  cd: ({ text }) => changeFolder(text),
  pwd: () => process.cwd(),
  env: ({ text }) => environment(text),
  npm: ({ text, baseDir }) => runNpm(text, baseDir),
  time: ({ text, execution }) => time(text, execution),
  timeit: ({ text, body }) => timeit(text, body as () => unknown),
};

/** Creates the function that performs the magics of cells; the compiler writes its calls ([Note: magics]). */
export function createMagics(
  baseDir: string,
  executionNow: () => ExecutionId,
): (name: Executed, text: string, body?: Call['body']) => unknown {
  return (name, text, body) => RUNS[name]({ text, body, baseDir, execution: executionNow() });
}

function show(type: string, body: Call['body']): void {
  currentDisplay()?.display({ [type]: String(body), 'text/plain': String(body) });
}
