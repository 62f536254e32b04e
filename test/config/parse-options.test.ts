import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import {
  atLeast0Schema,
  countSchema,
  flagSchema,
  functionSchema,
  limitAbove,
  parseOptions,
  positiveSchema,
  type ShapeOf,
  textSchema,
  wholeSchema,
} from '../../src/config/parse-options';

interface Options {
  readonly steps?: number;
  readonly share?: number;
  readonly seed?: number | null;
  readonly as?: 'lanes' | 'pipeline';
  readonly metrics?: Readonly<Record<string, () => number>>;
  readonly batch?: { readonly perGpu: number };
  readonly out: string;
}

const SHAPE = {
  steps: countSchema.max(9).default(3),
  share: positiveSchema.lt(1),
  seed: wholeSchema.nullable().default(null),
  as: z.enum(['lanes', 'pipeline']),
  metrics: z.record(z.string(), functionSchema<() => number>()),
  batch: z.strictObject({ perGpu: atLeast0Schema }),
  out: textSchema.nonoptional(),
} satisfies ShapeOf<Options>;

const parsed = (options: object) => parseOptions('run.draw(x, { … })', { out: 'a', ...options }, SHAPE);

test('options get their defaults, and options that were left out stay out', () => {
  assert.deepEqual(parsed({}), { steps: 3, seed: null, out: 'a' });
  assert.deepEqual(parsed({ steps: undefined, share: undefined }), { steps: 3, seed: null, out: 'a' });
  assert.deepEqual(parsed({ steps: 9, as: 'lanes' }), { steps: 9, seed: null, as: 'lanes', out: 'a' });
});

test('a limit may be infinite', () => {
  assert.deepEqual(parseOptions('f({ … })', { most: Infinity }, { most: limitAbove(1) }), { most: Infinity });
});

test('a wrong value is named with its call, its option and what is allowed', () => {
  for (const [options, message] of [
    [{ steps: 0 }, 'run.draw: steps is 0, but must be a whole number of at least 1 and of at most 9'],
    [{ share: 1 }, 'run.draw: share is 1, but must be a number above 0 and below 1'],
    [{ seed: 'x' }, 'run.draw: seed is "x", but must be a whole number, or null'],
    [
      { as: 'pipelin' },
      "run.draw: as is \"pipelin\", but must be 'lanes' or 'pipeline'; did you mean 'pipeline'?",
    ],
    [{ metrics: { loss: 5 } }, 'run.draw: metrics.loss is 5, but must be a function'],
    [{ metrics: [] }, 'run.draw: metrics is [], but must be an object such as { name: value }'],
    [{ batch: { perGpu: -1 } }, 'run.draw: batch.perGpu is -1, but must be a number of at least 0'],
    [{ batch: { global: 8 } }, 'run.draw: batch.perGpu is missing; it must be a number of at least 0'],
    [
      { batch: { perGpu: 1, global: 8 } },
      'run.draw: batch is {"perGpu":1,"global":8}, but must be { perGpu }',
    ],
    [{ out: undefined }, 'run.draw: out is missing; it must be a text'],
    [{ sizes: 1 }, /run\.draw\(x, \{ … \}\) has no argument sizes; choose one of steps, share/],
  ] as const) {
    assert.throws(() => parsed(options), { code: 'CONFIG', message });
  }
});

test('TypeScript reports a shape that differs from its interface', () => {
  // @ts-expect-error: the option `loud` has no schema
  const without = { steps: countSchema } satisfies ShapeOf<{ steps?: number; loud?: boolean }>;
  // @ts-expect-error: the interface has no text here
  const other = { steps: textSchema } satisfies ShapeOf<{ steps?: number }>;
  // @ts-expect-error: every call must give `steps`
  const optional = { steps: countSchema } satisfies ShapeOf<{ steps: number }>;
  const wider: { readonly loud?: boolean | string } = {};
  // @ts-expect-error: the interface has a text, which the shape refuses
  assert.deepEqual(parseOptions('f({ … })', wider, { loud: flagSchema }), {});
  assert.ok(without && other && optional);
});
