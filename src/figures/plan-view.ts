import type { MemoryCause } from '../core/events';
import type { Bytes, Seconds } from '../core/units';
import type { ConfigReading } from '../plan/config-readings';
import { type Cost, costOf, type Planned, type RunLength } from '../plan/cost-of';
import type { Layout } from '../plan/layout';
import { layoutOfRequest } from '../plan/layout-of';
import { reservableBytes } from '../plan/memory/allocator';
import { parseRequest } from '../plan/parse-request';
import { peakInBytes } from '../plan/peak-bytes';
import { type PlanInput, type PlanOptions, type PlanPlace, questionOf } from '../plan/plan-input';
import { predict } from '../plan/predict';
import type { Estimate, Prediction } from '../plan/prediction';
import { type PriceTable, priceTable } from '../plan/prices';
import { requestReadings } from '../plan/request-readings';
import { escapeHtml } from './escape';
import type { Figure } from './figure';
import type { DataFrame } from './frame';
import { memoryBreakdown } from './memory-breakdown';
import { layoutWords, planNotes, planTable, readingNotes, withAssumed } from './plan-table';
import { DISPLAY, type DisplayBundle, type Table } from './table';
import { timeBreakdown } from './time-breakdown';

/** What a layout is expected to take and need. In a notebook it shows itself. */
export interface Plan extends Planned, ConfigReading {
  readonly layout: Layout;
  readonly prediction: Prediction;
  /** Of one iteration. */
  readonly seconds: Estimate;
  readonly tokensPerSecondPerGpu: number;
  /** Model FLOP/s over the GPU's published peak. */
  readonly mfu: number;
  /** Of the GPU that holds most. */
  readonly peakBytes: Estimate;
  readonly fits: boolean;
  readonly largestAssumption: string;
  /** Where the layout lies outside of what the model was fitted on. */
  readonly outside: readonly string[];
  readonly table: Table;
  /** The memory at its peak, by cause. */
  memory(): Figure;
  /** An iteration's time, by cause. */
  time(): Figure;
  /** USD and hours of a run of that length. Throws: CONFIG where no price is known. */
  cost(length: RunLength, prices?: Readonly<Record<string, number>> | PriceTable): Cost;
  /** The breakdown as a danfojs DataFrame. */
  frame(): Promise<DataFrame>;
  toText(): string;
  [DISPLAY](): DisplayBundle;
}

/**
 * Predicts a layout's time and memory. `place` says where a TrainConfig runs, or replaces keys of a request: hardware's name or
 * { hardware, gpus, nicGbit, ... }. Throws: CONFIG naming what is wrong and what to change.
 */
export function plan(input: PlanInput, place: PlanPlace = {}, options: PlanOptions = {}): Plan {
  const { request: asked, assumed: ofConfig, withoutEffect } = questionOf(input, place, options);
  const request = parseRequest(asked);
  const layout = layoutOfRequest(request);
  const assumed = [...ofConfig, ...requestReadings(asked, request, layout)];
  return createPlan({ layout, prediction: predict(layout), assumed, withoutEffect });
}

/** A prediction with its pictures and its table. */
export function createPlan(planned: Planned & Partial<ConfigReading>): Plan {
  const { layout, prediction, assumed = [], withoutEffect = [] } = planned;
  const table = planTable(layout, prediction);
  const notes = [...planNotes(prediction), ...readingNotes({ assumed, withoutEffect })];
  const noted = (figure: Figure): Figure => withAssumed(figure, assumed);
  return {
    layout,
    prediction,
    assumed,
    withoutEffect,
    seconds: prediction.seconds,
    tokensPerSecondPerGpu: prediction.tokensPerSecondPerGpu,
    mfu: prediction.mfu,
    peakBytes: peakInBytes(prediction.memory),
    fits: prediction.fits,
    largestAssumption: prediction.largestAssumption,
    outside: prediction.outside,
    table,
    memory: () => noted(memoryFigure({ layout, prediction })),
    time: () => noted(timeFigure({ layout, prediction })),
    cost: (length, prices) =>
      costOf({ layout, prediction }, length, prices === undefined ? undefined : priceTable(prices)),
    frame: () => table.frame(),
    toText: () => [table.toText(), ...notes].join('\n'),
    [DISPLAY]: () => ({
      'text/html': `${table.toHtml()}<div>${notes.map(escapeHtml).join('<br>')}</div>`,
      'text/plain': [table.toText(), ...notes].join('\n'),
    }),
  };
}

function memoryFigure({ layout, prediction }: Planned): Figure {
  const { params, grads, optimizer, activations, temporary } = prediction.memory;
  const predicted: Readonly<Partial<Record<MemoryCause, Bytes>>> = {
    'param.shard': params,
    'grad.shard': grads,
    optimizer,
    activation: activations,
    temp: temporary,
  };
  const capacityBytes = reservableBytes(layout);
  return memoryBreakdown(
    [{ name: caseName(layout), predicted, predictedPeak: peakInBytes(prediction.memory), capacityBytes }],
    layoutWords(layout),
  );
}

function timeFigure({ layout, prediction }: Planned): Figure {
  const { time, mfu } = prediction;
  const seconds: Readonly<Record<string, Seconds>> = {
    ...time.computeByCause,
    communication: time.exposedComm,
    bubble: time.bubble,
  };
  const note = `${Math.round(100 * mfu)}% MFU`;
  return timeBreakdown(
    [{ name: caseName(layout), seconds, total: prediction.seconds, note }],
    layoutWords(layout),
  );
}

function caseName({ model, gpus, hardware }: Layout): string {
  return `${model.name}, ${gpus} x ${hardware.name}`;
}
