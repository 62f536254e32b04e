import { z } from 'zod';
import { COLLECTIVE_OPS, COMM_CAUSES, MEMORY_CAUSES, TEMPORARY_PARTS } from '../core';
import type { StepRecord } from './record';

const bytes = z.number();
const seconds = z.number();
/** A number; NaN and infinities are written as text, because JSON has no such numbers. */
const anyNumber = z.union([
  z.number(),
  z.enum(['NaN', 'Infinity', '-Infinity']).transform((text) => Number(text)),
]);

const owner = z.object({
  cause: z.enum(MEMORY_CAUSES),
  module: z.string(),
  space: z.enum(['device', 'host']),
  declared: z.enum(['bfloat16', 'float16']).optional(),
  part: z.enum(TEMPORARY_PARTS).optional(),
});

const curve = z
  .object({ seconds: z.array(seconds), owner: z.array(z.int()), deltaBytes: z.array(bytes) })
  .refine((c) => c.owner.length === c.seconds.length && c.deltaBytes.length === c.seconds.length, {
    message: 'columns of different lengths',
  });

const processMemory = z.object({
  rssBytes: bytes,
  deviceBytes: bytes,
  heapSlackBytes: bytes,
  javascriptBytes: bytes,
  externalBytes: bytes,
  nodeBytes: bytes,
});

const memory = z
  .object({
    owners: z.array(owner),
    atStart: z.array(bytes),
    atPeak: z.array(bytes),
    atRest: z.array(bytes),
    peakBytes: bytes,
    peakSeconds: seconds,
    restBytes: bytes,
    elsewhereBytes: bytes.default(0),
    numBuffersAtRest: z.int(),
    residualBytes: z.union([z.literal(0), z.null()]),
    curve: curve.nullable(),
    process: processMemory.nullable(),
  })
  .refine((m) => [m.atStart, m.atPeak, m.atRest].every((held) => held.length === m.owners.length), {
    message: 'atStart, atPeak, atRest and owners have different lengths',
  });

const collective = z
  .object({
    op: z.enum(COLLECTIVE_OPS),
    group: z.string(),
    ranks: z.array(z.int()),
    peer: z.int().nonnegative().optional(),
    number: z.int(),
    dtype: z.enum(['float32', 'int32', 'bool']),
    wireDType: z.enum(['float32', 'int32', 'bfloat16', 'float16']),
    count: z.int(),
    bytes,
    wireBytes: bytes,
    cause: z.enum(COMM_CAUSES),
    module: z.string(),
    cell: z.int().optional(),
    line: z.int().optional(),
    async: z.boolean(),
    posted: seconds,
    started: seconds,
    ended: seconds,
    exposed: seconds,
    progress: z
      .object({
        free: seconds,
        arrived: seconds,
        lacked: seconds,
        carried: seconds,
        resumed: seconds,
        postedCpu: seconds,
        resumedCpu: seconds,
      })
      .optional(),
  })
  .transform((event) => ({ ...event, cell: event.cell, line: event.line }));

const span = z.object({
  name: z.enum(['forward', 'backward', 'recompute', 'loss', 'optimizer', 'data', 'step']),
  module: z.string(),
  start: seconds,
  end: seconds,
  pipeline: z
    .object({
      half: z.enum(['input', 'weight']).optional(),
      stage: z.int().nonnegative(),
      microbatch: z.int().nonnegative(),
      cpu: seconds.optional(),
    })
    .optional(),
});

/** The schema of a step's record, which is one line of an event file. */
export const stepRecordSchema: z.ZodType<StepRecord> = z.object({
  step: z.int(),
  rank: z.int().nonnegative(),
  world: z.int().positive(),
  start: seconds,
  end: seconds,
  startCpu: seconds.optional(),
  endCpu: seconds.optional(),
  loss: anyNumber.nullable(),
  tokens: z.number().nullable(),
  memory,
  collectives: z.array(collective),
  spans: z.array(span),
});
