// node build/test/bench/collectives.js [--world N] [--plane shared-memory|zeromq] [--peer PYTHON] [--rounds K] [--sizes BYTES,…]
// Times collectives here and, alternating, torch's gloo in the interpreter PYTHON; prints medians over rounds and ratios.
import { execFileSync } from 'node:child_process';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { type BenchRow, busBandwidth } from '../../src/wire/dist/bench-collectives';
import { RankProcesses } from '../wire/dist/rank-processes';
import type { TestPlane } from '../wire/dist/scenario';

const PEER = join(__dirname, '../../../src/cli/bench/collectives_peer.py');
const SCENARIOS = join(__dirname, 'collectives.scenarios.js');

type Row = Pick<BenchRow, 'op' | 'bytes' | 'seconds'>;

async function runOurs(plane: TestPlane, world: number): Promise<Row[]> {
  const ranks = await RankProcesses.start(plane, world);
  try {
    const [first] = await ranks.run(SCENARIOS, 'collectives');
    if (first === undefined || 'error' in first) throw new Error(first?.error.message ?? 'rank 0 died');
    // The scenario returns rows.
    return first.value as Row[];
  } finally {
    await ranks.stop();
  }
}

function runPeer(python: string, world: number, sizes: string): Row[] {
  const list = sizes === '' ? [] : sizes.split(',');
  return JSON.parse(execFileSync(python, [PEER, String(world), ...list], { encoding: 'utf8' })) as Row[];
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      world: { type: 'string', default: '2' },
      plane: { type: 'string', default: 'shared-memory' },
      peer: { type: 'string' },
      rounds: { type: 'string', default: '3' },
      sizes: { type: 'string', default: '' },
    },
  });
  process.env.BENCH_SIZES = values.sizes;
  const world = Number(values.world);
  const ours: Row[] = [];
  const theirs: Row[] = [];
  for (let round = 0; round < Number(values.rounds); round++) {
    ours.push(...(await runOurs(values.plane === 'zeromq' ? 'zeromq' : 'shared-memory', world)));
    if (values.peer !== undefined) theirs.push(...runPeer(values.peer, world, values.sizes));
  }
  process.stdout.write(`${cpus()[0]?.model}, ${cpus().length} cores, world ${world}, ${values.plane}\n`);
  const timesOf = (rows: readonly Row[], row: Row): number[] =>
    rows.filter(({ op, bytes }) => op === row.op && bytes === row.bytes).map(({ seconds }) => seconds);
  for (const row of ours.slice(0, ours.length / Number(values.rounds))) {
    const seconds = median(timesOf(ours, row));
    const peer = median(timesOf(theirs, row));
    const bandwidth = busBandwidth(row.op, row.bytes, seconds, world) / 1e9;
    const ratio =
      values.peer === undefined
        ? ''
        : `  gloo ${(peer * 1e6).toFixed(0)} µs  ratio ${(peer / seconds).toFixed(2)}`;
    process.stdout.write(
      `${row.op.padEnd(14)} ${String(row.bytes).padStart(9)} B  ${(seconds * 1e6).toFixed(1).padStart(9)} µs  ${bandwidth.toFixed(2)} GB/s${ratio}\n`,
    );
  }
}

void main();
