import { runCommand } from '../../src/cli/program';

/** What one call of the command did. */
export interface Ran {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the command in this process with streams and environment of its own. */
export async function shardlab(
  argv: readonly string[],
  { env = process.env, cwd = process.cwd() }: { env?: NodeJS.ProcessEnv; cwd?: string } = {},
): Promise<Ran> {
  let stdout = '';
  let stderr = '';
  const status = await runCommand(argv, {
    env,
    cwd,
    isTerminal: false,
    stdout: (text) => {
      stdout += text;
    },
    stderr: (text) => {
      stderr += text;
    },
  });
  return { status, stdout, stderr };
}
