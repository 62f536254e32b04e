import { escapeHtml } from '../../figures/escape';
import type { Figure } from '../../figures/figure';
import type { DataFrame } from '../../figures/frame';
import { planMemory, planTime } from '../../figures/plans/plan-breakdown';
import { planNotes, planTable, readingNotes, withAssumed } from '../../figures/plans/plan-table';
import { DISPLAY, type DisplayBundle, type Table } from '../../figures/table';
import type { ConfigReading } from '../../plan/config-readings';
import { type Cost, costOf, type Planned, type RunLength } from '../../plan/cost-of';
import type { Layout } from '../../plan/layout';
import { layoutOfRequest } from '../../plan/layout-of';
import { parseRequest } from '../../plan/parse-request';
import { peakInBytes } from '../../plan/peak-bytes';
import { type PlanInput, type PlanOptions, type PlanPlace, questionOf } from '../../plan/plan-input';
import { predict } from '../../plan/predict';
import type { Estimate, Prediction } from '../../plan/prediction';
import { type PriceTable, priceTable } from '../../plan/prices';
import { requestReadings } from '../../plan/request-readings';

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
    memory: () => noted(planMemory({ layout, prediction })),
    time: () => noted(planTime({ layout, prediction })),
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
