import assert from 'node:assert/strict';
import { test } from 'node:test';
import { probeSharedMemory } from '../../../src/wire/transport/native';
import { launchFor, type runCell } from '../../session/job-fixture';

const CLASSES = `
  class Pair extends nn.Module {
    constructor(order) {
      super();
      for (const name of order) this[name] = new nn.Linear(4, 4);
    }
    forward(x) { return this.b.apply(this.a.apply(x)); }
  }
  const x = tf.ones([2, 4]);
  const first = rank === 0;
`;

interface Difference {
  readonly cell: string;
  /** What every rank's message shows. */
  readonly shows: readonly RegExp[];
}

/** Ranks 0 and 1 do not do the same. */
const DIFFERENCES: Readonly<Record<string, Difference>> = {
  'each runs another of two equal units': {
    cell: 'const [a, b] = [1, 2].map(() => fullyShard(new nn.Linear(4, 4))); (first ? a : b).apply(x)',
    shows: [/rank 0 called allGather of \d+ float32/, /rank 1 .*weight \[4, 4\].*equal module 2 of its cell/],
  },
  'each runs another unit of one model': {
    cell: 'const m = new Pair("ab"); fullyShard(m.a); fullyShard(m.b); fullyShard(m); (first ? m.a : m.b).apply(x)',
    shows: [/rank 0 .*module a, .*a\.weight \[4, 4\]/, /rank 1 .*module b, .*b\.weight \[4, 4\]/],
  },
  'each wraps another module of one model': {
    cell: 'const m = new Pair("ab"); fullyShard(first ? m.a : m.b); m.forward(x)',
    shows: [/rank 0 .*module a/, /rank 1 .*module b/],
  },
  'they add children in other orders, under fullyShard': {
    cell: 'fullyShard(new Pair(first ? "ab" : "ba")).apply(x)',
    shows: [/rank 0 .*a\.weight \[4, 4\].*b\.weight/, /rank 1 .*b\.weight \[4, 4\].*a\.weight/],
  },
  'they add children in other orders, under FSDP': {
    cell: 'FSDP(new Pair(first ? "ab" : "ba")).apply(x)',
    shows: [/rank 0 .*a\.weight \[4, 4\].*b\.weight/, /rank 1 .*b\.weight \[4, 4\].*a\.weight/],
  },
  'they add children in other orders, under DDP': {
    cell: 'new DDP(new Pair(first ? "ab" : "ba"))',
    shows: [/rank 0 called broadcast.*carries a\.weight \[4, 4\], 1 of 4/, /rank 1 .*carries b\.weight/],
  },
  'they shard other shapes': {
    cell: 'fullyShard(first ? new nn.Linear(4, 6, { bias: false }) : new nn.Linear(6, 4, { bias: false })).apply(tf.ones([1, first ? 4 : 6]))',
    shows: [/rank 0 .*weight \[6, 4\]/, /rank 1 .*weight \[4, 6\]/],
  },
  'only the last of many parameters differs': {
    cell: `const widths = [4, 4, 4, 4, 4, 4, first ? 5 : 7];
      fullyShard(new nn.Sequential(...widths.map((width) => new nn.Linear(4, width)))).apply(x)`,
    shows: [/rank 0 .*more \(checksum \d+\)/, /rank 1 .*more \(checksum \d+\)/],
  },
  'they replicate other shapes': {
    cell: 'new DDP(first ? new nn.Linear(4, 6, { bias: false }) : new nn.Linear(6, 4, { bias: false }))',
    shows: [/rank 0 .*weight \[6, 4\]/, /rank 1 .*weight \[4, 6\]/],
  },
  'one replicates a parameter more': {
    cell: 'new DDP(new nn.Linear(4, 4, { bias: first }))',
    shows: [/rank 0 .*1 of 2/, /rank 1 .*1 of 1/],
  },
  'they step through other replicas': {
    cell: 'const [c, d] = [1, 2].map(() => new DDP(new nn.Linear(4, 4))); (first ? c : d).apply(x).sum().backward()',
    shows: [/allReduce.*\(asynchronous, avg/, /equal module 2 of its cell/],
  },
  'each runs another tensor-parallel layer of one model': {
    cell: `const m = new Pair("ab"); const style = RowwiseParallel({ inputLayouts: Replicate() });
      parallelizeModule(m, initDeviceMesh([2], ['tp']), { a: style, b: style }); (first ? m.a : m.b).apply(x)`,
    shows: [/rank 0 called allReduce .*module a/, /rank 1 called allReduce .*module b/],
  },
  'a naive DDP has other shapes': {
    cell: 'naive.DDP(first ? new nn.Linear(4, 6, { bias: false }) : new nn.Linear(6, 4, { bias: false }))',
    shows: [/weight \[6, 4\]/, /weight \[4, 6\]/],
  },
  'one averages a tensor of its own where the other gathers parameters': {
    cell: 'if (first) fullyShard(new nn.Linear(4, 4)).apply(x); else dist.allGatherIntoTensor(tf.ones([10]))',
    shows: [/rank 0 called allGather/, /rank 1 called/],
  },
  'buffers differ in name': {
    cell: `class Counted extends nn.Module {
        constructor(name) { super(); this.w = new nn.Parameter(tf.ones([2])); this[name] = new nn.Buffer(tf.ones([3])); }
        forward(x) { return x; }
      }
      new DDP(new Counted(first ? 'mean' : 'scale'))`,
    shows: [/carries mean \[3\]/, /carries scale \[3\]/],
  },
};

const probe = probeSharedMemory();
for (const transport of ['shared-memory', 'zeromq'] as const) {
  const skip = transport === 'shared-memory' && !probe.ok ? `no shared memory here: ${probe.reason}` : false;

  test(`ranks over ${transport} that run, wrap or build other modules all get an error that shows both`, {
    skip,
  }, async (context) => {
    const job = await launchFor(context, { ranks: 2, transport });
    for (const [name, { cell, shows }] of Object.entries(DIFFERENCES)) {
      await context.test(name, async () => {
        const errors = await errorsOf(job, `{ ${CLASSES} ${cell} }`);
        assert.deepEqual([...errors.keys()].sort(), [0, 1], 'every rank has an error');
        for (const message of errors.values()) {
          assert.match(message, /ranks of group world called different collectives/);
          for (const pattern of shows) assert.match(message, pattern);
        }
      });
    }

    await context.test('calls of the user are compared as in torch: from other lines, they fit', async () => {
      const lines = `if (rank === 0) dist.allReduce(tf.ones([4]));
        else dist.allReduce(tf.zeros([4]), { asyncOp: false });`;
      assert.deepEqual([...(await errorsOf(job, lines))], []);
    });

    await context.test(
      'equal models of several cells, and of a cell that failed on one rank, train',
      async () => {
        const build = 'fullyShard(new nn.Linear(4, 4)).apply(tf.ones([1, 4])).sum().backward()';
        const failing = `{ fullyShard(new nn.Linear(4, 4)); if (rank === 1) throw new Error('once'); ${build} }`;
        assert.equal((await errorsOf(job, failing)).size > 0, true);
        assert.deepEqual([...(await errorsOf(job, build))], []);
        await errorsOf(job, 'if (rank === 0) globalThis.extra = fullyShard(new nn.Linear(4, 4))');
        assert.deepEqual([...(await errorsOf(job, build))], []);
      },
    );
  });
}

/** Runs a cell; returns the error that each rank showed. */
async function errorsOf(job: Parameters<typeof runCell>[0], js: string): Promise<Map<number, string>> {
  const errors = new Map<number, string>();
  await job
    .runCell({ js, cell: 1, selection: 'all' }, (event) => {
      if (event.kind === 'error') errors.set(event.rank, event.error.evalue);
    })
    .catch(() => undefined);
  return errors;
}
