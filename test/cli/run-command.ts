import { Readable } from 'node:stream';
import { runCommand } from '../../src/cli/program';

/** The result of one call of the command. */
export interface Ran {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

interface ShardlabOptions {
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
  /** The text on stdin. */
  readonly stdin?: string | Readable;
}

/** Runs the command in this process with its own streams and environment. */
export async function shardlab(
  argv: readonly string[],
  { env = process.env, cwd = process.cwd(), stdin }: ShardlabOptions = {},
): Promise<Ran> {
  let stdout = '';
  let stderr = '';
  const status = await runCommand(argv, {
    env,
    cwd,
    isTerminal: false,
    ...(stdin === undefined ? {} : { stdin: typeof stdin === 'string' ? Readable.from([stdin]) : stdin }),
    stdout: (text) => {
      stdout += text;
    },
    stderr: (text) => {
      stderr += text;
    },
  });
  return { status, stdout, stderr };
}

/** The objects of a text with one line of JSON for each. */
export function jsonLines(text: string): Record<string, unknown>[] {
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
}
