import assert from 'node:assert/strict';
import { mkdtempSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { type LaunchOptions, MAX_RANKS, planLaunch, RANK_BASE_BYTES } from '../../src/launch/options';

const PLENTY = 1e12;

/** Options as untyped code may give them. */
function loose(options: unknown): LaunchOptions {
  return options as LaunchOptions;
}

test('launch refuses a number of ranks that is not a whole number from 1 to the bound, and names both', () => {
  for (const ranks of [0, -1, 1.5, Number.NaN, '4', 'x', undefined, null]) {
    assert.throws(() => planLaunch(loose({ ranks }), PLENTY), {
      code: 'CONFIG',
      message: new RegExp(`must be a whole number from 1 to ${MAX_RANKS}`),
    });
  }
  assert.throws(() => planLaunch({ ranks: 1000 }, PLENTY), {
    code: 'CONFIG',
    message: /ranks is 1000.*at most 64/,
  });
});

test('launch in a folder that was deleted says so', (context) => {
  const before = process.cwd();
  context.after(() => process.chdir(before));
  const gone = mkdtempSync(join(tmpdir(), 'gone-'));
  process.chdir(gone);
  rmdirSync(gone);
  assert.throws(() => planLaunch({ ranks: 1 }, PLENTY), {
    code: 'IO',
    message: /folder was deleted; .*baseDir/,
  });
  assert.equal(planLaunch({ ranks: 1, baseDir: before }, PLENTY).baseDir, before);
});

test('launch refuses more ranks than fit into the free memory, and says how many fit', () => {
  assert.throws(() => planLaunch({ ranks: 8 }, 3.5 * RANK_BASE_BYTES), {
    code: 'LAUNCH',
    message: /launch 3 or fewer/,
  });
  assert.throws(() => planLaunch({ ranks: 1 }, 1e6), { code: 'LAUNCH', message: /free some memory/ });
});

test('launch refuses options that the engine would ignore, and names the engine that has them', () => {
  assert.throws(
    () => planLaunch({ ranks: 2, python: 'python3' }, PLENTY),
    /launch\(\{ python \}\) is an option of engine 'torch'/,
  );
  for (const option of [
    { link: '10GbE' },
    { memoryLimit: 1e9 },
    { blas: 'none' },
    { transport: 'zeromq' },
  ] as const) {
    const options = { ranks: 2, engine: 'torch', ...option } as const;
    assert.throws(
      () => planLaunch(options, PLENTY),
      /is an option of engine 'wasm', and the engine is 'torch'/,
    );
  }
  assert.equal(planLaunch({ ranks: 2, engine: 'torch', python: 'python3' }, PLENTY).python, 'python3');
});

test('launch refuses unknown options and values, and names the valid ones', () => {
  assert.throws(
    () => planLaunch(loose({ ranks: 2, rank: 3 }), PLENTY),
    /launch\(\{ … \}\) has no argument rank; did you mean ranks\?/,
  );
  assert.throws(
    () => planLaunch(loose({ ranks: 2, engine: 'cuda' }), PLENTY),
    /engine is "cuda", but must be 'wasm' or 'torch'/,
  );
  assert.throws(
    () => planLaunch(loose({ ranks: 2, transport: 'tcp' }), PLENTY),
    /'shared-memory' or 'zeromq'/,
  );
  assert.throws(() => planLaunch(loose({ ranks: 2, link: '10GB' }), PLENTY), /did you mean '10GbE'/);
  assert.throws(() => planLaunch({ ranks: 2, memoryLimit: -1 }, PLENTY), /memoryLimit is -1/);
  assert.throws(
    () => planLaunch(loose({ ranks: 2, blas: {} }), PLENTY),
    /blas\.path is missing; it must be a path/,
  );
  for (const blas of [null, 'fast']) {
    assert.throws(
      () => planLaunch(loose({ ranks: 2, blas }), PLENTY),
      /blas is .*, but must be 'auto', 'none' or \{ path \}/,
    );
  }
  for (const baseDir of ['/nonexistent', __filename, 5]) {
    assert.throws(() => planLaunch(loose({ ranks: 2, baseDir }), PLENTY), {
      code: 'CONFIG',
      message: /baseDir is .*, but must be the path of a folder/,
    });
  }
  assert.throws(
    () => planLaunch(loose(4), PLENTY),
    /launch\(\{ … \}\) takes options by name, not 4; the options are .*ranks/,
  );
});

test('launch refuses an unknown launcher', () => {
  const options = loose({ ranks: 2, engine: 'torch', launcher: 'ray' });
  assert.throws(() => planLaunch(options, PLENTY), {
    code: 'CONFIG',
    message: /launcher is "ray", but must be 'torchrun' or 'ssh' or 'mpirun' or 'slurm'/,
  });
});

test('every option has a default', () => {
  const plan = planLaunch({ ranks: 2 }, PLENTY);
  assert.equal(plan.engine, 'wasm');
  assert.equal(plan.blas, 'auto');
  assert.equal(plan.transport, 'auto');
  assert.equal(plan.link, undefined);
  assert.equal(plan.baseDir, process.cwd());
});

test('nodes divide the ranks evenly, and the link within a node needs nodes', () => {
  const plan = planLaunch({ ranks: 4, nodes: 2, link: '10GbE', intraNodeLink: 'PCIe4' }, PLENTY);
  assert.equal(plan.link?.name, '10GbE');
  assert.deepEqual([plan.nodes?.ranksPerNode, plan.nodes?.link?.name], [2, 'PCIe4']);
  assert.deepEqual(planLaunch({ ranks: 4, nodes: 2 }, PLENTY).nodes, { ranksPerNode: 2, link: null });
  assert.equal(planLaunch({ ranks: 4 }, PLENTY).nodes, undefined);
  const refused = (options: LaunchOptions, message: RegExp): void =>
    assert.throws(() => planLaunch(options, PLENTY), { code: 'CONFIG', message });
  refused({ ranks: 4, nodes: 3 }, /3 nodes do not divide 4 ranks evenly; launch 3 ranks/);
  refused({ ranks: 2, nodes: 4 }, /4 nodes do not divide 2 ranks evenly; launch 4 ranks/);
  refused({ ranks: 4, intraNodeLink: '10GbE' }, /the job has no nodes; add nodes, or write link/);
  refused({ ranks: 4, nodes: 2, intraNodeLink: loose('10gbe') as never }, /did you mean '10GbE'/);
  refused(loose({ ranks: 4, nodes: 0 }), /nodes/);
  refused({ ranks: 4, nodes: 2, engine: 'torch' }, /launch\(\{ nodes \}\) is an option of engine 'wasm'/);
});
