import { resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { wholeNumber } from '../arguments';
import { processorName } from '../doctor/node-check';
import type { Io, Perform } from '../io';
import { trainHeadless } from '../run/headless';
import { type SpeedReport, speedReport } from '../run/report';
import { type PeerReport, runGptPeer } from './gpt-peer';
import { configOf, type GptWork, PRECISIONS, type Precision, SIZES, STRATEGIES } from './gpt-work';

interface GptOptions extends GptWork {
  readonly blas: 'auto' | 'none';
  readonly peer?: string;
  readonly port: number;
  readonly threads: number;
}

/** What `shardlab bench gpt` answers: the peer's keys and, if a peer ran, the ratios ours / theirs. */
export interface GptBenchReport extends SpeedReport {
  readonly precision: Precision;
  readonly blas: string;
  readonly processor: string;
  readonly peer?: PeerReport;
  readonly ratio_tokens_per_s?: number;
  readonly ratio_rss?: number;
  /**
   * Largest difference of the two losses at a step; only with --init, because without it the two start from different
   * values.
   */
  readonly max_loss_difference?: number;
}

/** `shardlab bench gpt`: the work of torch_gpt_bench.py on this project's ranks. */
export function addGptBench(bench: Command, perform: Perform, io: Io): void {
  const command = bench
    .command('gpt')
    .description('trains the GPT of torch_gpt_bench.py, by the same arguments, with the same JSON keys')
    .addOption(new Option('--strategy <name>', 'how').choices(Object.keys(STRATEGIES)).default('fsdp2'))
    .addOption(
      new Option('--precision <name>', 'the type of parameters on the wire')
        .choices(Object.keys(PRECISIONS))
        .default('fp32'),
    )
    .addOption(
      new Option('--blas <choice>', 'the library for matmuls').choices(['auto', 'none']).default('auto'),
    )
    .option('--init <file>', 'initial parameters (safetensors)')
    .option('--peer <python>', 'a Python with torch: runs the two one after the other and adds the ratios')
    .option('--port <n>', "the port of the peer's rendezvous", wholeNumber(1), 29517)
    .option('--threads <n>', "the peer's threads; 0: all cores, divided by its ranks", wholeNumber(0), 0);
  for (const [name, size] of Object.entries(SIZES)) command.option(`--${name} <n>`, '', wholeNumber(1), size);
  perform<GptOptions>(command, async (_, options, output) => {
    const { init, ...rest } = options;
    const work = init === undefined ? rest : { ...rest, init: resolve(io.cwd, init) };
    const peer = work.peer === undefined ? undefined : await runGptPeer(work.peer, work, io);
    const report = compare(await ours(work, io), peer, init !== undefined);
    output.answer(report, () => asText(report));
    return 0;
  });
}

async function ours(work: GptOptions, io: Io): Promise<GptBenchReport> {
  const run = await trainHeadless(
    { config: configOf(work), ranks: work.world, blas: work.blas, init: work.init },
    io,
  );
  const { precision, strategy } = work;
  return { ...speedReport(run, strategy), precision, blas: run.blas, processor: processorName() };
}

function compare(report: GptBenchReport, peer: PeerReport | undefined, sameStart: boolean): GptBenchReport {
  if (peer === undefined) return report;
  const differences = report.losses.map((loss, i) => Math.abs(loss - (peer.losses[i] ?? Number.NaN)));
  return {
    ...report,
    peer,
    ratio_tokens_per_s: ratio(report.tokens_per_s, peer.tokens_per_s),
    ratio_rss: ratio(report.rss_mb_max, peer.rss_mb_max),
    ...(sameStart ? { max_loss_difference: Number(Math.max(...differences).toFixed(6)) } : {}),
  };
}

function ratio(our: number, their: number): number {
  return Number((our / their).toFixed(3));
}

function asText(report: GptBenchReport): string {
  const line = (side: SpeedReport): string =>
    `${side.engine.padEnd(6)} ${side.strategy} world ${side.world}: ${side.tokens_per_s} tokens/s, ` +
    `${side.step_ms} ms per step, ${side.rss_mb_max} MiB, loss ${side.losses.at(-1)}`;
  const lines = [`${report.processor} (BLAS: ${report.blas})`, line(report)];
  if (report.peer !== undefined) {
    lines.push(
      line(report.peer),
      `ours / theirs: tokens/s ${report.ratio_tokens_per_s}, RSS ${report.ratio_rss}`,
    );
  }
  return lines.join('\n');
}
