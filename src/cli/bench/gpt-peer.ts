import { join } from 'node:path';
import { z } from 'zod';
import { ShardlabError } from '../../core/errors';
import type { Io } from '../io';
import type { GptWork } from './gpt-work';
import { runPython } from './python-peer';

const reportSchema = z.object({
  engine: z.string(),
  strategy: z.string(),
  world: z.number(),
  precision: z.string(),
  params: z.number(),
  tokens_per_s: z.number(),
  step_ms: z.number(),
  losses: z.array(z.number()),
  rss_mb_max: z.number(),
});

/** The line of JSON that torch_gpt_bench.py prints. */
export type PeerReport = z.output<typeof reportSchema>;

/** Runs the same work by PyTorch. Throws: ENGINE with the peer's last lines when it fails. */
export async function runGptPeer(
  python: string,
  work: GptWork & { readonly port: number; readonly threads: number },
  io: Io,
): Promise<PeerReport> {
  const names = [
    'strategy',
    'precision',
    'world',
    'steps',
    'batch',
    'seq',
    'dim',
    'heads',
    'layers',
    'vocab',
    'port',
    'threads',
  ] as const;
  const args = names.map((name) => `--${name}=${work[name]}`);
  if (work.init !== undefined) args.push(`--init=${work.init}`);
  const program = [join(__dirname, 'torch_gpt_bench.py'), ...args];
  const printed = await runPython(python, program, io, (stdout) => reportIn(stdout) !== undefined);
  const report = reportIn(printed);
  if (report !== undefined) return report;
  throw new ShardlabError('ENGINE', `the peer printed no report: ${printed.trim().slice(-400)}`);
}

function reportIn(printed: string): PeerReport | undefined {
  const line = printed.split('\n').find((text) => text.startsWith('{') && text.endsWith('}'));
  return line === undefined ? undefined : reportSchema.safeParse(JSON.parse(line)).data;
}
