import { join } from 'node:path';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { z } from 'zod';
import { type ShowProgress, withProgress } from '../../cell';
import {
  type Bytes,
  ConfigError,
  formatBytes,
  formatSeconds,
  isWhole,
  median,
  type Seconds,
} from '../../core';
import type { LaunchOptions } from '../../launch';
import { type Job, launch } from '../../session';
import { BENCH_SIZES, type BenchRow, busBandwidth, type Link, linkText, modelSeconds } from '../../wire';
import { linkNumbers, parseLink, wholeNumber } from '../arguments';
import { processorName } from '../doctor/checks';
import { type Io, type Perform, progressOn } from '../io';
import { runPython } from './python-peer';

interface CollectivesOptions {
  readonly world: number;
  readonly rounds: number;
  readonly sizes: readonly Bytes[];
  readonly transport: NonNullable<LaunchOptions['transport']>;
  readonly link?: Link;
  readonly peer?: string;
}

type Timing = Pick<BenchRow, 'op' | 'bytes' | 'seconds'>;

/** The measurements of one collective at one size; each number is the median over rounds. */
interface ComparedRow extends Timing {
  readonly bus_gb_per_s: number;
  /** The time that the model of the shaped link gives, and the measured time divided by this time. */
  readonly model_seconds?: Seconds;
  readonly measured_over_model?: number;
  readonly peer_seconds?: Seconds;
  /** Our bus bandwidth divided by the peer's. */
  readonly ratio?: number;
}

const peerSchema = z.array(
  z.object({
    op: z.enum(['allReduce', 'reduceScatter', 'allGather', 'allToAll']),
    bytes: z.number(),
    seconds: z.number(),
  }),
);

/** `shardlab bench collectives`: measures our collectives, and those of torch's gloo in the same run. */
export function addCollectivesBench(bench: Command, perform: Perform, io: Io): void {
  const transports = ['auto', 'shared-memory', 'zeromq'];
  const command = bench
    .command('collectives')
    .description('all-reduce, reduce-scatter, all-gather, all-to-all: time and bus bandwidth')
    .option('--world <n>', 'number of ranks', wholeNumber(2), 2)
    .option(
      '--rounds <k>',
      "number of measurements, which alternate with the peer's; the result is their median",
      wholeNumber(1),
      3,
    )
    .option('--sizes <bytes>', 'sizes of tensors in bytes, comma-separated', parseSizes, BENCH_SIZES)
    .addOption(
      new Option('--transport <name>', 'how ranks exchange tensors').choices(transports).default('auto'),
    )
    .option(
      '--link <name>',
      "shapes the wire: a name such as 10GbE, or 'GBIT,MICROSECONDS'; also prints the times that this link should give",
      parseLink,
    )
    .option(
      '--peer <python>',
      'a Python with torch: the command also measures its gloo, and adds the ratios',
    );
  perform<CollectivesOptions>(command, async (_, options, output) => {
    const { world, rounds, sizes, peer, link } = options;
    if (peer !== undefined && link !== undefined)
      throw new ConfigError('--link does not shape the wire of a --peer; leave out --link or --peer');
    const ours: Timing[] = [];
    const theirs: Timing[] = [];
    const shaped = link === undefined ? {} : { link: linkNumbers(link) };
    const job = await launch({ ranks: world, transport: options.transport, baseDir: io.cwd, ...shaped });
    try {
      const measureAll = async (show: ShowProgress): Promise<void> => {
        for (let round = 0; round < rounds; round++) {
          show(round, rounds);
          ours.push(...(await timeOurs(job, sizes)));
          if (peer !== undefined) theirs.push(...(await timePeer(peer, world, sizes, io)));
        }
      };
      await withProgress('measuring collectives', 'rounds', measureAll, progressOn(io));
    } finally {
      await job.shutdown();
    }
    const transport = job.ranks[0]?.transport ?? '';
    const rows = compare(ours, theirs, world).map((row) => besideModel(row, link, world));
    const wire = link === undefined ? transport : `${transport}, ${linkText(link)}`;
    const report = { processor: processorName(), world, transport, ...shaped, rows };
    output.answer(report, () =>
      [`${report.processor}, world ${world}, ${wire}`, ...rows.map(asLine)].join('\n'),
    );
    return 0;
  });
}

async function timeOurs(job: Job, sizes: readonly Bytes[]): Promise<readonly Timing[]> {
  const numRanks = job.ranks.length;
  const [rows] = await job.on('all').measure<BenchRow[]>({ kind: 'collectives', numRanks, sizes });
  return rows ?? [];
}

async function timePeer(
  python: string,
  world: number,
  sizes: readonly Bytes[],
  io: Io,
): Promise<readonly Timing[]> {
  const args = [join(__dirname, 'collectives_peer.py'), String(world), ...sizes.map(String)];
  return peerSchema.parse(JSON.parse(await runPython(python, args, io)));
}

function compare(ours: readonly Timing[], theirs: readonly Timing[], world: number): readonly ComparedRow[] {
  const kinds = new Map(ours.map((row) => [`${row.op} ${row.bytes}`, row]));
  return [...kinds.values()].map(({ op, bytes }) => {
    const seconds = medianOf(ours, op, bytes);
    const row = { op, bytes, seconds, bus_gb_per_s: busBandwidth(op, bytes, seconds, world) / 1e9 };
    if (theirs.length === 0) return row;
    const peerSeconds = medianOf(theirs, op, bytes);
    return { ...row, peer_seconds: peerSeconds, ratio: Number((peerSeconds / seconds).toFixed(2)) };
  });
}

function besideModel(row: ComparedRow, link: Link | undefined, world: number): ComparedRow {
  if (link === undefined) return row;
  const model = modelSeconds(link, row.op, row.bytes, world);
  return { ...row, model_seconds: model, measured_over_model: Number((row.seconds / model).toFixed(3)) };
}

function medianOf(rows: readonly Timing[], op: string, bytes: Bytes): Seconds {
  return median(rows.filter((row) => row.op === op && row.bytes === bytes).map(({ seconds }) => seconds));
}

function asLine(row: ComparedRow): string {
  const { op, bytes, seconds, bus_gb_per_s, peer_seconds, ratio, model_seconds, measured_over_model } = row;
  const own = `${op.padEnd(14)} ${formatBytes(bytes).padStart(8)} ${formatSeconds(seconds).padStart(8)} ${bus_gb_per_s.toFixed(2).padStart(6)} GB/s`;
  if (model_seconds !== undefined)
    return `${own}   model ${formatSeconds(model_seconds).padStart(8)}, measured / model ${measured_over_model}`;
  return peer_seconds === undefined ? own : `${own}   gloo ${formatSeconds(peer_seconds)}, ratio ${ratio}`;
}

function parseSizes(text: string): readonly Bytes[] {
  const sizes = text.split(',').map(Number);
  if (sizes.every((size) => isWhole(size, 4096) && size % 4 === 0)) return sizes;
  throw new InvalidArgumentError(
    'Give sizes in bytes, separated by commas; each must be a multiple of 4 and at least 4096.',
  );
}
