import type { Command } from 'commander';
import { type ShowProgress, withProgress } from '../../cell';
import type { TrainConfigInput } from '../../config';
import type { Seconds } from '../../core';
import { type Job, launch, type Run } from '../../session';
import { type Link, linkText } from '../../wire';
import { linkNumbers, parseLink, wholeNumber } from '../arguments';
import { processorName } from '../doctor/checks';
import { type Io, type Perform, progressOn } from '../io';

/** Two configurations that differ in one setting, or in settings that belong together. Each result is a ratio: `of` ÷ `to`. */
interface Pair {
  readonly name: string;
  readonly of: TrainConfigInput;
  readonly to: TrainConfigInput;
}

const bench = (more: TrainConfigInput): TrainConfigInput => ({
  model: 'bench',
  data: 'synthetic',
  batch: 4,
  ...more,
});
const FULL_SHARD = bench({});

/** The settings whose effect users ask about first. */
const PAIRS: readonly Pair[] = [
  { name: 'FULL_SHARD / NO_SHARD', of: FULL_SHARD, to: bench({ parallel: { strategy: 'NO_SHARD' } }) },
  {
    name: 'prefetch on / off',
    of: FULL_SHARD,
    to: bench({ parallel: { forwardPrefetch: false, backwardPrefetch: null } }),
  },
  { name: 'bf16 / fp32', of: bench({ mixedPrecision: 'bf16' }), to: FULL_SHARD },
  { name: 'recompute full / none', of: bench({ activationCheckpointing: 'full' }), to: FULL_SHARD },
  { name: 'optimizer on the host / device', of: bench({ offload: { optimizer: true } }), to: FULL_SHARD },
  { name: 'adamW8bit / adamW', of: bench({ optimizer: { kind: 'adamW8bit' } }), to: FULL_SHARD },
];

interface SettingsOptions {
  readonly world: number;
  readonly rounds: number;
  readonly link?: Link;
}

/** `shardlab bench settings`: measures how settings change time, bytes and memory. Steps of the two compared runs alternate. */
export function addSettingsBench(parent: Command, perform: Perform, io: Io): void {
  const command = parent
    .command('settings')
    .description(
      'trains with and without each of six settings, in alternating steps, and prints three ratios (with ÷ without): step time, bytes on the wire and peak memory',
    )
    .option('--world <n>', 'number of ranks', wholeNumber(2), 2)
    .option('--rounds <k>', 'measurements per setting; the result is their median', wholeNumber(3), 7)
    .option('--link <name>', "shapes the wire: a name such as 10GbE, or 'GBIT,MICROSECONDS'", parseLink);
  perform<SettingsOptions>(command, async (_, { world, rounds, link }, output) => {
    const shaped = link === undefined ? {} : { link: linkNumbers(link) };
    const job = await launch({ ranks: world, baseDir: io.cwd, ...shaped });
    try {
      const measureAll = async (show: ShowProgress): Promise<readonly SettingsRow[]> => {
        const rows: SettingsRow[] = [];
        for (const [i, pair] of PAIRS.entries()) {
          show(i, PAIRS.length, pair.name);
          rows.push(await measure(job, pair, rounds));
        }
        return rows;
      };
      const rows = await withProgress('measuring', 'settings', measureAll, progressOn(io));
      const processor = processorName();
      const wire = link === undefined ? 'shared memory' : linkText(link);
      output.answer({ processor, world, ...shaped, rounds, rows }, () =>
        [`${processor}, world ${world}, ${wire}`, ...rows.map(asLine)].join('\n'),
      );
    } finally {
      await job.shutdown();
    }
    return 0;
  });
}

type SettingsRow = Awaited<ReturnType<typeof measure>>;

/** Returns the ratios of one pair. The ratio of times is the median over rounds; `least` and `most` are its range. */
async function measure(job: Job, { name, of, to }: Pair, rounds: number) {
  const runs = [await job.train(of), await job.train(to)] as const;
  try {
    for (const run of runs) await run.step(2);
    const ratios: number[] = [];
    for (let round = 0; round < rounds; round++) {
      const [a, b] = [await stepSeconds(runs[0]), await stepSeconds(runs[1])];
      ratios.push(a / b);
    }
    ratios.sort((a, b) => a - b);
    return {
      pair: name,
      step_time: ratios[Math.floor(rounds / 2)] ?? Number.NaN,
      least: ratios[0] ?? Number.NaN,
      most: ratios.at(-1) ?? Number.NaN,
      wire_bytes: wireBytes(runs[0]) / wireBytes(runs[1]),
      peak_bytes: peakBytes(runs[0]) / peakBytes(runs[1]),
    };
  } finally {
    for (const run of runs) await run.dispose();
  }
}

async function stepSeconds(run: Run): Promise<Seconds> {
  await run.step(1);
  return run.results.at(-1)?.seconds ?? Number.NaN;
}

function wireBytes(run: Run): number {
  const { collectives = [] } = run.records.newest().at(-1) ?? {};
  return collectives.reduce((sum, event) => sum + event.wireBytes, 0);
}

function peakBytes(run: Run): number {
  return Math.max(...run.records.newest().map(({ memory }) => memory.peakBytes));
}

function asLine({ pair, step_time, least, most, wire_bytes, peak_bytes }: SettingsRow): string {
  return (
    `${pair.padEnd(30)} step ${step_time.toFixed(2)}× (${least.toFixed(2)}–${most.toFixed(2)}), ` +
    `wire ${wire_bytes.toFixed(2)}×, peak ${peak_bytes.toFixed(2)}×`
  );
}
