import { join, resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { z } from 'zod';
import { withProgress } from '../../cell';
import { parseTrainConfig, type StrategyName, type TrainConfig } from '../../config';
import { ConfigError, ShardlabError } from '../../core';
import {
  addEngineOptions,
  addParallelOptions,
  type EngineOptions,
  engineOf,
  type ParallelOptions,
  parallelSettings,
  wholeNumber,
} from '../arguments';
import { processorName } from '../doctor/checks';
import { type Io, type Perform, progressOn } from '../io';
import { trainHeadless } from '../run/headless';
import { type SpeedReport, speedReport } from '../run/report';
import { runPython } from './python-peer';

/** The peer's names for strategies. */
const STRATEGIES = {
  fsdp2: 'FULL_SHARD',
  zero2: 'SHARD_GRAD_OP',
  ddp: 'NO_SHARD',
  none: 'NO_SHARD',
} as const satisfies Record<string, StrategyName>;

/** The sizes of the model and of the training, with the peer's defaults. */
const SIZES = {
  world: { usual: 2, says: 'number of ranks' },
  steps: { usual: 10, says: 'number of steps; the first two do not count in the speed' },
  batch: { usual: 8, says: 'sequences per rank and step' },
  seq: { usual: 128, says: 'tokens per sequence' },
  dim: { usual: 256, says: 'width of the residual stream' },
  heads: { usual: 8, says: 'attention heads' },
  layers: { usual: 4, says: 'number of blocks' },
  vocab: { usual: 8192, says: 'tokens in the vocabulary' },
} as const;

/** The peer's precisions. The peer's 'bf16' gathers parameters in bfloat16, and reduces gradients in float32. */
const PRECISIONS = {
  fp32: null,
  bf16: { paramDtype: 'bf16', reduceDtype: 'fp32' },
} as const;

interface GptOptions extends Readonly<Record<keyof typeof SIZES, number>>, EngineOptions, ParallelOptions {
  readonly strategy: keyof typeof STRATEGIES;
  readonly precision: keyof typeof PRECISIONS;
  readonly init?: string;
  readonly peer?: string;
  readonly port: number;
  readonly threads: number;
  readonly rounds: number;
}

const sizeNames = Object.keys(SIZES) as readonly (keyof typeof SIZES)[]; // `SIZES` has no other keys

/** The options that the peer's program also has. */
const PEER_OPTIONS = ['strategy', 'precision', ...sizeNames, 'port', 'threads'] as const;

/** The line of JSON that torch_gpt_bench.py prints. */
const peerSchema = z.object({
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

/** The answer of `shardlab bench gpt`: the peer's keys and, if a peer ran, our speed and memory divided by the peer's. */
interface GptReport extends SpeedReport {
  readonly precision: string;
  readonly blas: string;
  readonly processor: string;
  readonly peer?: z.output<typeof peerSchema>;
  readonly ratio_tokens_per_s?: number;
  /** The ratios of all rounds, if there are several rounds; the report then describes the round with the median ratio. */
  readonly ratios_tokens_per_s?: readonly number[];
  readonly ratio_rss?: number;
  /**
   * Largest difference between our loss and the peer's in any step; only with --init, because otherwise initial values differ.
   */
  readonly max_loss_difference?: number;
}

/** `shardlab bench gpt`: does the training of torch_gpt_bench.py on our ranks. */
export function addGptBench(bench: Command, perform: Perform, io: Io): void {
  const command = bench
    .command('gpt')
    .description('trains the GPT of torch_gpt_bench.py, with the same arguments and the same JSON keys')
    .addOption(
      new Option('--strategy <name>', 'what is sharded').choices(Object.keys(STRATEGIES)).default('fsdp2'),
    )
    .addOption(
      new Option('--precision <name>', 'the dtype of parameters on the wire')
        .choices(Object.keys(PRECISIONS))
        .default('fp32'),
    )
    .option('--init <file>', 'initial parameters (safetensors)')
    .option('--peer <python>', 'a Python with torch: the command also trains in it, and adds the ratios')
    .option('--port <n>', "the port of the peer's rendezvous", wholeNumber(1, 65_535), 29517)
    .option('--threads <n>', "threads that the peer's ranks share; 0: one per core", wholeNumber(0), 0)
    .option(
      '--rounds <n>',
      'with --peer: the number of rounds, each with one run of the peer and one of ours; the report describes the round with the median ratio',
      wholeNumber(1),
      1,
    );
  addEngineOptions(command);
  addParallelOptions(command);
  for (const [name, { usual, says }] of Object.entries(SIZES))
    command.option(`--${name} <n>`, says, wholeNumber(1), usual);
  perform<GptOptions>(command, async (_, options, output) => {
    const config = configOf(options);
    const init = options.init === undefined ? undefined : resolve(io.cwd, options.init);
    const { world, strategy, precision, peer: python, rounds } = options;
    if (python === undefined && rounds > 1)
      throw new ConfigError('--rounds compares with a peer; add --peer PYTHON, or leave --rounds out');
    const round = async (): Promise<GptReport> => {
      const peerRun = (peer: string) => () => runPeer(peer, options, init, io);
      const peer =
        python === undefined
          ? undefined
          : await withProgress('running the peer', '', peerRun(python), progressOn(io));
      const run = await trainHeadless({ ...engineOf(options), config, ranks: world, init }, io);
      const speed = speedReport(run, strategy);
      const own = { ...speed, precision, blas: run.blas, processor: processorName() };
      return peer === undefined ? own : compare(own, peer, init !== undefined);
    };
    const reports: GptReport[] = [];
    while (reports.length < rounds) reports.push(await round());
    const report = middleOf(reports);
    output.answer(report, () => asText(report));
    return 0;
  });
}

/** Returns the report with the median ratio, and adds the ratios of all rounds to it. */
function middleOf(reports: readonly GptReport[]): GptReport {
  const ratioOf = ({ ratio_tokens_per_s: ratio = 1 }: GptReport): number => ratio;
  const sorted = [...reports].sort((first, second) => ratioOf(first) - ratioOf(second));
  const middle = sorted[Math.floor((sorted.length - 1) / 2)] as GptReport; // there is at least one round
  return reports.length === 1 ? middle : { ...middle, ratios_tokens_per_s: reports.map(ratioOf) };
}

/** Returns the work as a TrainConfig. Throws: CONFIG if the strategy does not fit the world. */
function configOf({ strategy, precision, world, steps, batch, ...options }: GptOptions): TrainConfig {
  if (strategy === 'none' && world !== 1) {
    throw new ConfigError(`--strategy none trains one rank, not ${world}; add --world 1 or choose ddp`);
  }
  const degrees = parallelSettings(options);
  if (options.peer !== undefined && Object.keys(degrees).length > 0) {
    throw new ConfigError(
      'the peer has data parallelism only; leave out --peer, or the options of model parallelism',
    );
  }
  const { seq, dim, heads, layers, vocab } = options;
  return parseTrainConfig({
    model: { kind: 'gpt', layers, dim, heads, vocab, seq },
    parallel: { strategy: STRATEGIES[strategy], ...degrees },
    mixedPrecision: PRECISIONS[precision],
    data: 'synthetic',
    optimizer: { lr: 1e-3, betas: [0.9, 0.95], eps: 1e-8, weightDecay: 0.1 },
    clipNorm: 1,
    batch,
    steps,
  });
}

/** Does the same training in PyTorch. Throws: ENGINE with the peer's last lines if the peer fails. */
async function runPeer(
  python: string,
  options: GptOptions,
  init: string | undefined,
  io: Io,
): Promise<z.output<typeof peerSchema>> {
  const args = PEER_OPTIONS.map((name) => `--${name}=${options[name]}`);
  if (init !== undefined) args.push(`--init=${init}`);
  const program = [join(__dirname, 'torch_gpt_bench.py'), ...args];
  const printed = await runPython(python, program, io, (stdout) => reportIn(stdout) !== undefined);
  const report = reportIn(printed);
  if (report !== undefined) return report;
  throw new ShardlabError('ENGINE', `the peer printed no report: ${printed.trim().slice(-400)}`);
}

function reportIn(printed: string): z.output<typeof peerSchema> | undefined {
  const line = printed.split('\n').find((text) => text.startsWith('{') && text.endsWith('}'));
  return line === undefined ? undefined : peerSchema.safeParse(JSON.parse(line)).data;
}

function compare(own: GptReport, peer: z.output<typeof peerSchema>, sameStart: boolean): GptReport {
  const ratio = (our: number, their: number): number => Number((our / their).toFixed(3));
  const differences = own.losses.map((loss, i) => Math.abs(loss - (peer.losses[i] ?? Number.NaN)));
  return {
    ...own,
    peer,
    ratio_tokens_per_s: ratio(own.tokens_per_s, peer.tokens_per_s),
    ratio_rss: ratio(own.rss_mb_max, peer.rss_mb_max),
    ...(sameStart ? { max_loss_difference: Number(Math.max(...differences).toFixed(6)) } : {}),
  };
}

function asText(report: GptReport): string {
  const line = (side: Omit<SpeedReport, 'mesh'>): string =>
    `${side.engine.padEnd(6)} ${side.strategy} world ${side.world}: ${side.tokens_per_s} tokens/s, ` +
    `${side.step_ms} ms per step, ${side.rss_mb_max} MiB, loss ${side.losses.at(-1)}`;
  const lines = [`${report.processor} (BLAS: ${report.blas})`, line(report)];
  if (report.peer !== undefined) {
    lines.push(
      line(report.peer),
      `ours / theirs: tokens/s ${report.ratio_tokens_per_s}, RSS ${report.ratio_rss}`,
    );
    const ratios = report.ratios_tokens_per_s;
    if (ratios !== undefined) lines.push(`tokens/s of all rounds: ${ratios.join(', ')}`);
  }
  return lines.join('\n');
}
