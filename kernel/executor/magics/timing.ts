import { currentDisplay } from '../../../src/cell';
import { mean, now, type Seconds, ShardlabError } from '../../../src/core';
import type { ExecutionId } from '../protocol';

interface Start {
  readonly at: Seconds;
  readonly cpu: NodeJS.CpuUsage;
}

/** By execution, the `%time` that has begun and has not ended; a subshell may run beside the notebook. */
const started = new Map<ExecutionId, Start>();

/** `%time`: begins, or ends and prints the times since its begin. The end of the cell ends it too. */
export function time(action: string, execution: ExecutionId): void {
  const end = (): void => report(execution);
  if (action === 'end') {
    end();
    return;
  }
  if (!started.has(execution)) currentDisplay()?.atEnd?.(end);
  started.set(execution, { at: now(), cpu: process.cpuUsage() });
}

function report(execution: ExecutionId): void {
  const start = started.get(execution);
  if (start === undefined) return;
  started.delete(execution);
  const wall = now() - start.at;
  const { user, system } = process.cpuUsage(start.cpu);
  const cpu = [
    `user ${duration(user / 1e6)}`,
    `sys: ${duration(system / 1e6)}`,
    `total: ${duration((user + system) / 1e6)}`,
  ];
  process.stdout.write(`CPU times: ${cpu.join(', ')}\nWall time: ${duration(wall)}\n`);
}

/** Without -n, a run of `%timeit` lasts this long or longer. */
const SHORTEST_RUN_SECONDS = 0.2;
const DEFAULT_RUNS = 7;

/** `%timeit`: runs the code many times, and prints mean and standard deviation in the words of IPython. */
export async function timeit(text: string, body: () => unknown): Promise<void> {
  const runs = option(text, 'r') ?? DEFAULT_RUNS;
  let hasEnded = false;
  currentDisplay()?.atEnd?.(() => {
    hasEnded = true;
  });
  const run = (loops: number): Promise<Seconds> => timeOf(body, loops, () => hasEnded);
  let loops = option(text, 'n') ?? 1;
  if (option(text, 'n') === undefined)
    while ((await run(loops)) < SHORTEST_RUN_SECONDS && loops < 1e9 && !hasEnded) loops *= 10;
  const times: number[] = [];
  while (times.length < runs && !hasEnded) times.push((await run(loops)) / loops);
  if (hasEnded) return;
  const middle = mean(times);
  const deviation = Math.sqrt(mean(times.map((seconds) => (seconds - middle) ** 2)));
  const counts = `${runs} run${runs === 1 ? '' : 's'}, ${loops.toLocaleString('en')} loop${loops === 1 ? '' : 's'} each`;
  process.stdout.write(
    `${duration(middle)} ± ${duration(deviation)} per loop (mean ± std. dev. of ${counts})\n`,
  );
}

/** Gets the value of each loop, so that no code is left out because nothing uses its value. */
let latest: unknown;

async function timeOf(body: () => unknown, loops: number, hasEnded: () => boolean): Promise<Seconds> {
  const start = now();
  for (let i = 0; i < loops; i++) {
    latest = body();
    if (latest instanceof Promise) {
      latest = await latest;
      if (hasEnded()) break;
    }
  }
  const seconds = now() - start;
  latest = undefined;
  return seconds;
}

function option(text: string, letter: 'n' | 'r'): number | undefined {
  const written = new RegExp(`-${letter}\\s*(\\d+)`).exec(text)?.[1];
  if (written === undefined) return undefined;
  if (Number(written) > 0) return Number(written);
  throw new ShardlabError('CONFIG', `%timeit -${letter} ${written}: write a number of 1 or more`);
}

/** A time with three digits, as IPython writes it. */
function duration(seconds: Seconds): string {
  if (seconds >= 60) return `${Math.floor(seconds / 60)}min ${Math.round(seconds % 60)}s`;
  const [unit, scale] =
    seconds >= 1 ? ['s', 1] : seconds >= 1e-3 ? ['ms', 1e3] : seconds >= 1e-6 ? ['μs', 1e6] : ['ns', 1e9];
  return `${Number((seconds * scale).toPrecision(3))} ${unit}`;
}
