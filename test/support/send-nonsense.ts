import { ShardlabError } from '../../src/core/errors';
import { nonsense } from './nonsense';

/** A longer message is no message. */
const MOST_CHARACTERS = 600;
/** Of this process's time, because other processes may use the machine. */
const MOST_SECONDS = 1;
/** A call that has no answer after this time hangs. */
const HANGS_SECONDS = 10;

export interface Findings {
  readonly numCalls: number;
  /** What was wrong with an answer: a raw error, a long message, or a long time. */
  readonly wrong: readonly string[];
}

/** Values that are nonsense in most places, by name. What a proxy or a getter of the user's throws is the user's error. */
function values(): readonly (readonly [string, unknown])[] {
  const { proxy: _, getter: __, ...others } = nonsense();
  return Object.entries({
    ...others,
    nothing: null,
    number: 2,
    zero: 0,
    word: '/proc/none',
    flag: true,
    call: () => 1,
  });
}

/** Calls each function with each value, and waits for promises. `within` runs a call, and frees its tensors. */
export async function sendNonsense(
  calls: Readonly<Record<string, (value: never) => unknown>>,
  within: (work: () => never) => unknown = (work) => work(),
): Promise<Findings> {
  const wrong: string[] = [];
  let numCalls = 0;
  for (const [name, call] of Object.entries(calls)) {
    for (const [kind, value] of values()) {
      numCalls++;
      const found = await answerOf(() => within(() => call(value as never) as never));
      if (found !== null) wrong.push(`${name} of ${kind}: ${found}`);
    }
  }
  return { numCalls, wrong };
}

/** Returns what is wrong with the answer of a call; null if the call succeeds or throws a short error of shardlab. */
async function answerOf(call: () => unknown): Promise<string | null> {
  const began = process.cpuUsage();
  try {
    const result = call();
    if (result instanceof Promise) await withinTime(result);
  } catch (error) {
    if (!(error instanceof ShardlabError)) return `a raw error: ${String(error)}`.slice(0, 200);
    if (error.message.length > MOST_CHARACTERS)
      return `${error.message.length} characters: ${error.message.slice(0, 100)}`;
  }
  const { user, system } = process.cpuUsage(began);
  const seconds = (user + system) / 1e6;
  return seconds > MOST_SECONDS ? `${seconds} s` : null;
}

async function withinTime(work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('no answer')), HANGS_SECONDS * 1e3);
  });
  try {
    await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
