import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import {
  type Bytes,
  findInstallation,
  isRecord,
  type Seconds,
  ShardlabError,
  withTemporaryFolder,
} from '../../core';
import { torchPython } from '../../torch';
import type { BundleFolder } from './bundle-folder';
import { type Finding, failed, notChecked } from './finding';

/** What one rank did in the dry start. */
export interface DryStart {
  readonly rank: number;
  readonly world: number;
  readonly seconds: Seconds;
  /** The largest resident memory of the process that ran the dry start. */
  readonly processBytes: Bytes;
  /** Bytes of the rank's tensors at the step's peak, in all and by cause. */
  readonly peakBytes: Bytes;
  readonly bytes: Readonly<Record<string, Bytes>>;
  /** The collectives of one step, by operation and cause. */
  readonly collectives: readonly DryCollective[];
}

/** Collectives of one kind. */
export interface DryCollective {
  readonly op: string;
  readonly cause: string;
  readonly count: number;
  /** The sum of their tensors' bytes. */
  readonly bytes: Bytes;
}

/** How Python checks a folder. */
export interface PythonOptions {
  readonly rank: number;
  readonly timeoutSeconds: Seconds;
  readonly env: NodeJS.ProcessEnv;
  readonly signal?: AbortSignal | undefined;
  /** Receives each finding when it is made. */
  readonly note: (finding: Finding) => void;
}

/** A line of src/python/launch_check; the last line has only `isDone`. */
type Answer = Finding &
  Partial<Pick<DryStart, 'rank' | 'world' | 'seconds' | 'processBytes'>> & {
    readonly step?: Pick<DryStart, 'peakBytes' | 'bytes' | 'collectives'> | null;
    readonly isDone?: true;
  };

/**
 * Checks what needs Python, in the environment of engine 'torch': syntax, the programs' own parsers, and the dry start. Returns what the
 * dry start measured. Throws: INTERRUPTED after `signal` is aborted.
 */
export async function checkByPython(
  bundle: BundleFolder,
  { rank, timeoutSeconds, env, signal, note }: PythonOptions,
): Promise<DryStart | undefined> {
  const torch = torchPython(env);
  const script = 'train.py';
  const hasScript = bundle.names.includes(script);
  if (!hasScript) note(withoutDryStart(bundle, script));
  if (torch.python === undefined) {
    const says = `there is no Python with PyTorch: ${torch.missing} (shardlab engine torch makes one)`;
    note(notChecked(hasScript ? 'dry start' : 'parser', hasScript ? script : 'launch files', says));
    return undefined;
  }
  const parent = mkdtempSync(join(tmpdir(), 'shardlab-launch-check-'));
  return withTemporaryFolder(parent, () =>
    watched(
      startPython(torch.python, { ...requestOf(bundle, rank, script), scratch: scratchIn(parent) }, env),
      {
        script,
        timeoutSeconds,
        signal,
        note,
      },
    ),
  );
}

/** Says why a folder without a script of its own has no dry start, and what is checked in its place. */
function withoutDryStart({ facts }: BundleFolder, script: string): Finding {
  const program = facts === undefined ? 'the program that its launch files start' : facts.to;
  return notChecked(
    'dry start',
    script,
    `is not here, because ${program} builds and trains the model itself: no step is tried, and only the lines above and below are checked ` +
      '(files, syntax, launch commands, and the parsers that are installed); start it with few steps on one machine of the cluster first',
  );
}

/** Waits for Python's findings, and ends it when the time is over or the signal is aborted. */
async function watched(
  python: ReturnType<typeof startPython>,
  {
    script,
    timeoutSeconds,
    signal,
    note,
  }: Pick<PythonOptions, 'timeoutSeconds' | 'signal' | 'note'> & { readonly script: string },
): Promise<DryStart | undefined> {
  let isLate = false;
  const patience = setTimeout(() => {
    isLate = true;
    python.end();
  }, timeoutSeconds * 1e3);
  signal?.addEventListener('abort', python.end);
  if (signal?.aborted === true) python.end();
  let dry: DryStart | undefined;
  let isDone = false;
  try {
    for await (const { step, finding, isDone: isLast, ...measured } of python.answers()) {
      if (isLast) isDone = true;
      else note(finding);
      if (step) dry = { ...measured, ...step };
    }
    const { unstarted, reason } = await python.ended;
    if (signal?.aborted === true)
      throw new ShardlabError('INTERRUPTED', 'launch-check was stopped; the folder is as it was');
    const late = `it did not end within ${timeoutSeconds} s; give more time (--timeout), or look where the script waits`;
    if (unstarted !== undefined)
      note(
        notChecked(
          'dry start',
          script,
          `the Python ${unstarted} cannot be started (${reason}); correct SHARDLAB_TORCH_PYTHON, or run shardlab engine torch`,
        ),
      );
    else if (isLate) note(failed('dry start', script, late));
    else if (!isDone)
      note(
        failed('dry start', script, `Python ended before all checks were done: ${reason}; start it by hand`),
      );
    return dry;
  } finally {
    clearTimeout(patience);
    signal?.removeEventListener('abort', python.end);
    python.end();
  }
}

/** Makes a folder for the script; torch's own temporary files come beside it. */
function scratchIn(parent: string): string {
  const scratch = join(parent, 'bundle');
  mkdirSync(scratch);
  return scratch;
}

/** Starts `python -m launch_check`. */
function startPython(
  python: string,
  request: ReturnType<typeof requestOf> & { readonly scratch: string },
  env: NodeJS.ProcessEnv,
) {
  const child = spawn(python, ['-m', 'launch_check', JSON.stringify(request)], {
    env: {
      ...env,
      ...PYTHON_VARIABLES,
      PYTHONPATH: join(findInstallation(), 'src', 'python'),
      TMPDIR: dirname(request.scratch),
    },
    stdio: ['pipe', 'pipe', 'pipe'], // Python ends, and deletes the folder of links, when its input ends: this process has ended then
    detached: true, // so that its processes, such as a script's loaders, end with it
  });
  let isOver = false;
  const end = (): void => {
    if (child.pid === undefined || isOver) return;
    isOver = child.exitCode !== null || child.signalCode !== null;
    try {
      process.kill(-child.pid, 'SIGKILL'); // also what the script has started, after the script has ended
    } catch (error) {
      if (!isMissingProcess(error)) throw error;
    }
  };
  let messages = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    messages = (messages + text).slice(-MOST_CHARACTERS);
  });
  process.once('exit', end);
  child.stdin.on('error', () => undefined); // Python may end first
  const ended = new Promise<{ readonly unstarted?: string; readonly reason: string }>((settle) => {
    child.once('error', (error) => settle({ unstarted: python, reason: error.message }));
    child.once('exit', () => end());
    child.once('close', (code, signal) => settle({ reason: endText(code, signal, messages) }));
  }).finally(() => process.off('exit', end));
  return {
    ended,
    end,
    async *answers() {
      for await (const line of createInterface({ input: child.stdout })) {
        const answer = answerIn(line);
        if (answer === undefined) continue;
        const { step, rank, world, seconds = 0, processBytes = 0, isDone, ...finding } = answer;
        const place = { rank: rank ?? request.rank, world: world ?? request.world };
        yield { ...place, seconds, processBytes, step, isDone, finding };
      }
    },
  };
}

/** Returns what a line of our program says; undefined for other lines, such as those that packages print while Python starts. */
function answerIn(line: string): Answer | undefined {
  try {
    const answer: unknown = JSON.parse(line);
    return isRecord(answer) && ('check' in answer || 'isDone' in answer)
      ? (answer as unknown as Answer) // our program writes it
      : undefined;
  } catch {
    return undefined;
  }
}

/** Whether a process, or all processes of a group, had ended before. */
function isMissingProcess(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ESRCH';
}

/** More characters of Python's messages are not stored. */
const MOST_CHARACTERS = 4000;

/** A dry start uses no GPU, writes no bytecode, and asks no hub. */
const PYTHON_VARIABLES = {
  CUDA_VISIBLE_DEVICES: '',
  PYTHONDONTWRITEBYTECODE: '1',
  OMP_NUM_THREADS: '1',
  HF_HUB_OFFLINE: '1',
} as const;

/** Returns the request of src/python/launch_check/findings.py. */
function requestOf({ path, names, launches, world, machines }: BundleFolder, rank: number, script: string) {
  const having = (form: RegExp): readonly string[] => names.filter((name) => form.test(name));
  return {
    folder: path,
    python: having(/\.py$/),
    launches: launches.map(({ name }) => name),
    accelerate: having(/^accelerate.*\.ya?ml$/),
    deepspeed: having(/^ds_config.*\.json$/),
    script: names.includes(script) ? script : null,
    world,
    local_world: Math.ceil(world / machines),
    rank,
  };
}

/** Says how Python ended. */
function endText(code: number | null, signal: NodeJS.Signals | null, messages: string): string {
  if (signal === 'SIGKILL') return 'it was ended by SIGKILL, perhaps because memory ran out';
  const how = signal === null ? `it ended with status ${code}` : `it was ended by ${signal}`;
  const last = messages.trim().split('\n').at(-1);
  return last ? `${how}, after the message ${JSON.stringify(last.trim())}` : how;
}
