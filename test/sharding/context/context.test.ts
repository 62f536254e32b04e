import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import fc from 'fast-check';
import { type CollectiveEvent, SILENT } from '../../../src/core/events';
import * as tf from '../../../src/core/tf';
import { gradients } from '../../../src/engine/autograd/unit';
import { withMetaEngine } from '../../../src/engine/backend/meta-engine';
import { gpt, moe } from '../../../src/nn/models/gpt';
import { llama } from '../../../src/nn/models/llama';
import { applyContextParallel } from '../../../src/sharding/context/apply-context-parallel';
import { ContextParallel, type ContextParallelOptions } from '../../../src/sharding/context/context-parallel';
import { ringAttention, ringBlock } from '../../../src/sharding/context/ring-attention';
import { cutSequence, restoreSequence, type SequenceCut } from '../../../src/sharding/context/sequence-order';
import { ulyssesAttention } from '../../../src/sharding/context/ulysses-attention';
import { DDP } from '../../../src/sharding/ddp/distributed-data-parallel';
import { mixedPrecision } from '../../../src/sharding/precision/mixed-precision';
import { joinMetaWorld } from '../../../src/wire/dist/meta-world';
import type { ProcessGroup } from '../../../src/wire/dist/types';
import { testEngine } from '../../support/wasm-test-engine';

const [B, T, DIM, HEADS] = [2, 16, 24, 12];
const SHAPE = { layers: 2, dim: DIM, heads: HEADS, vocab: 31, seq: T } as const;

/** Runs `work` on a rank without values, and returns the collectives. */
function collectivesOf(
  world: number,
  work: (group: ProcessGroup, engine: Parameters<typeof gradients>[0]) => void,
): CollectiveEvent[] {
  return withMetaEngine({}, (engine) => {
    const collectives: CollectiveEvent[] = [];
    const observer = { ...SILENT, collective: (event: CollectiveEvent) => void collectives.push(event) };
    work(joinMetaWorld({ rank: 1, world, engine, observer }), engine);
    return collectives;
  });
}

/** The exchanges of one training step, without those of gradients and parameters. */
function exchangesOf(
  name: 'gpt' | 'llama',
  world: number,
  options: ContextParallelOptions,
  precision = {},
): CollectiveEvent[] {
  return collectivesOf(world, (group, engine) => {
    const model = name === 'gpt' ? gpt(SHAPE) : llama({ ...SHAPE, kvHeads: 2, ffn: 16 });
    applyContextParallel(model, group, options);
    new DDP(model, { engine, group, observer: SILENT }, precision);
    const [ids, targets] = [tf.zeros([B, T], 'int32'), tf.zeros([B * T], 'int32')];
    gradients(engine, () => model.apply(ids, targets)).backward();
  }).filter(({ cause }) => cause === 'activation' || cause === 'loss');
}

const sumOf = (events: readonly CollectiveEvent[]): number =>
  events.reduce((sum, { wireBytes }) => sum + wireBytes / 4, 0);

describe('a step of a model under context parallelism', () => {
  test('Ulysses has 8 all-to-alls of bsh (P - 1) / P² elements per layer, under the name of the attention', () => {
    const events = exchangesOf('gpt', 4, { kind: 'ulysses' });
    for (const layer of [0, 1]) {
      const own = events.filter(({ module }) => module === `blocks.${layer}.attention`);
      assert.deepEqual(
        own.map(({ op, wireBytes }) => `${op} ${wireBytes / 4}`),
        [...new Array<string>(8).fill(`allToAll ${(B * T * DIM * 3) / 16}`)],
      );
    }
    assert.deepEqual(
      events.filter(({ cause }) => cause === 'loss').map(({ op, count }) => `${op} ${count}`),
      ['allReduce 1'],
    );
    assert.equal(events.length, 2 * 8 + 1);
  });

  test('a ring receives 2bsh (P - 1) / P elements per layer in forward and 4bsh (P - 1) / P in backward', () => {
    const events = exchangesOf('gpt', 4, { kind: 'ring' });
    const received = events.filter(({ op, module }) => op === 'recv' && module === 'blocks.1.attention');
    assert.equal(sumOf(received), (6 * B * T * DIM * 3) / 4);
    assert.equal(received.length, 6 * 3);
    assert.ok(received.every(({ async }) => async));
  });

  test('a ring sends only the heads of keys and values', () => {
    const events = exchangesOf('llama', 2, { kind: 'ring' });
    const received = events.filter(
      ({ op, module }) => op === 'recv' && module === 'model.layers.0.self_attn',
    );
    assert.equal(sumOf(received), (((6 * B * T * DIM) / 2) * 2) / HEADS);
  });

  test('Ulysses and ring together exchange heads between neighbours, and keys between ranks with the same heads', () => {
    const events = exchangesOf('gpt', 4, { kind: 'usp', ulyssesDegree: 2 });
    const groups = (op: string): string[] => [
      ...new Set(events.filter((event) => event.op === op).map(({ ranks }) => ranks.join())),
    ];
    assert.deepEqual(groups('allToAll'), ['0,1']);
    assert.deepEqual(groups('recv'), ['1,3']);
  });

  test('a unit with 16-bit parameters sends activations with 16 bits, and sums of gradients with 32 bits', () => {
    const precision = { precision: mixedPrecision({ paramDtype: 'bfloat16' }) };
    const ulysses = exchangesOf('gpt', 2, { kind: 'ulysses' }, precision);
    assert.deepEqual(typesOf(ulysses), { allToAll: ['bfloat16'] });
    const ring = exchangesOf('gpt', 2, { kind: 'ring' }, precision);
    assert.deepEqual(typesOf(ring).recv, ['bfloat16', 'float32']);
  });
});

function typesOf(events: readonly CollectiveEvent[]): Record<string, string[]> {
  const exchanged = events.filter(({ cause }) => cause === 'activation');
  return Object.fromEntries(
    [...new Set(exchanged.map(({ op }) => op))].map((op) => [
      op,
      [...new Set(exchanged.filter((event) => event.op === op).map(({ wireDType }) => wireDType))],
    ]),
  );
}

describe('cuts of a sequence', () => {
  before(async () => {
    await testEngine();
  });

  test('the parts of all ranks restore the sequence, in both orders, alone and with Ulysses', () => {
    const sizes = fc.record({
      ring: fc.integer({ min: 1, max: 5 }),
      ulysses: fc.integer({ min: 1, max: 4 }),
      chunk: fc.integer({ min: 1, max: 3 }),
      order: fc.constantFrom('zigzag' as const, 'contiguous' as const),
    });
    fc.assert(
      fc.property(sizes, ({ ring, ulysses, chunk, order }) => {
        const length = 2 * ring * ulysses * chunk;
        const cuts = cutsOf(ring, ulysses, order);
        tf.tidy(() => {
          const x = tf.reshape(tf.range(0, 2 * length), [2, length]);
          const whole = restoreSequence(
            cuts.map((cut) => cutSequence(x, cut)),
            cuts,
          );
          assert.deepEqual([...whole.dataSync()], [...x.dataSync()]);
        });
      }),
      { seed: 1, numRuns: 50 },
    );
  });

  test('in zigzag order a rank has an early and a late chunk, and all ranks compute equally many scores', () => {
    const cuts = cutsOf(3, 1, 'zigzag');
    const parts = tf.tidy(() => cuts.map((cut) => [...cutSequence(tf.range(0, 12), cut, 0).dataSync()]));
    assert.deepEqual(parts, [
      [0, 1, 10, 11],
      [2, 3, 8, 9],
      [4, 5, 6, 7],
    ]);
    const scores = (order: 'zigzag' | 'contiguous', rank: number): number =>
      [0, 1, 2].reduce((sum, from) => {
        const block = ringBlock({ rank, size: 3 }, from, 4, { order, isCausal: true });
        if (block === null) return sum;
        const { firstQuery, numKeys, isCausal } = block;
        return sum + (isCausal ? 10 : (4 - firstQuery) * numKeys);
      }, 0);
    assert.deepEqual(
      [0, 1, 2].map((rank) => scores('zigzag', rank)),
      [26, 26, 26],
    );
    assert.deepEqual(
      [0, 1, 2].map((rank) => scores('contiguous', rank)),
      [10, 26, 42],
    );
  });
});

function cutsOf(ring: number, ulysses: number, order: SequenceCut['order']): SequenceCut[] {
  return Array.from({ length: ring * ulysses }, (_, rank) => ({
    ring: { rank: Math.floor(rank / ulysses), size: ring },
    ulysses: { rank: rank % ulysses, size: ulysses },
    order,
  }));
}

describe('refusals say what to change', () => {
  const refused = (world: number, message: RegExp, work: (group: ProcessGroup) => unknown): void => {
    collectivesOf(world, (group) => {
      assert.throws(() => work(group), message);
    });
  };

  test('of a sequence that does not divide', () => {
    refused(
      3,
      /16 positions .* over 3 .* zigzag order has 6 chunks; use a length that is a multiple of 6/,
      (group) => {
        const model = gpt(SHAPE);
        applyContextParallel(model, group, { kind: 'ring' });
        model.apply(tf.zeros([B, T], 'int32'));
      },
    );
  });

  test('of heads that do not divide', () => {
    const heads = /5 does not divide 12 heads; use 1, 2, 3, 4, 6, 12 ranks, or ring attention/;
    refused(5, heads, (group) => applyContextParallel(gpt(SHAPE), group));
    refused(5, heads, (group) => {
      const x = tf.zeros([B, 2, HEADS, 2]);
      return ulyssesAttention(x, x, x, { group, causal: true });
    });
  });

  test('of other models, a second call, and options without meaning', () => {
    refused(2, /a MoeGPT cannot be divided: its router 'expert-choice' compares the rows/, (group) =>
      applyContextParallel(moe({ ...SHAPE, experts: 2, router: 'expert-choice' }), group),
    );
    refused(2, /already called/, (group) => {
      const model = gpt(SHAPE);
      applyContextParallel(model, group);
      applyContextParallel(model, group);
    });
    refused(2, /kind 'usp' needs ulyssesDegree/, (group) => new ContextParallel(group, { kind: 'usp' }));
    refused(2, /ulyssesDegree 3 does not divide the 2/, (group) => {
      return new ContextParallel(group, { kind: 'usp', ulyssesDegree: 3 });
    });
    refused(2, /kind 'ulysses' has no ring/, (group) => new ContextParallel(group, { order: 'zigzag' }));
  });
});

test('unknown options and orders are refused, because they would change the result in silence', () => {
  collectivesOf(2, (group) => {
    const x = tf.zeros([1, 4, 2, 3]);
    const options = { group, causal: true };
    const refused = (work: () => unknown, message: RegExp) =>
      assert.throws(work, { code: 'CONFIG', message });
    const python: object = { is_causal: true };
    refused(
      () => ringAttention(x, x, x, { ...options, ...python }),
      /ringAttention.* has no argument is_causal/,
    );
    refused(
      () => ulyssesAttention(x, x, x, { ...options, ...python }),
      /ulyssesAttention.* has no argument is_causal/,
    );
    const context = new ContextParallel(group, { kind: 'ring' });
    refused(
      () => context.attention(x, x, x, { causal: true, ...python }),
      /attention.* has no argument is_causal/,
    );
    const order = 'zig' as 'zigzag';
    refused(
      () => ringAttention(x, x, x, { ...options, order }),
      /order is "zig", but must be 'zigzag' or 'contiguous'/,
    );
    refused(() => new ContextParallel(group, { kind: 'ring', order }), /order is "zig"/);
  });
});
