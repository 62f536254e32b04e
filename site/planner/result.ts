import { formatBytes, formatSeconds } from '../../src/core';
import { planNotes, planTitle, readingNotes } from '../../src/figures';
import {
  type Cost,
  costOf,
  type PlannedInput,
  PRICES,
  peakInBytes,
  reservableBytes,
  tokensPerStep,
  usdPerMillionTokens,
} from '../../src/planner';
import { el, table } from './dom';

/** Returns the plan in one sentence, as the command prints it. */
export function sentenceOf({ layout, prediction }: PlannedInput): string {
  return planTitle(layout, prediction);
}

/** Draws the plan's main numbers, each with its interval. */
export function headline({ layout, prediction }: PlannedInput, tokens: number | null): HTMLElement {
  const { seconds, memory, fits, mfu, tokensPerSecondPerGpu } = prediction;
  const peak = peakInBytes(memory);
  const usable = reservableBytes(layout);
  const rate = Math.round(tokensPerSecondPerGpu);
  return el(
    'dl',
    { class: 'headline' },
    ...card(
      'fits',
      fitWords(fits, peak.low, peak.high, usable),
      `${formatBytes(usable)} usable`,
      fits ? 'yes' : 'no',
    ),
    ...card(
      'memory per GPU',
      formatBytes(peak.value),
      `${formatBytes(peak.low)} to ${formatBytes(peak.high)}`,
    ),
    ...card(
      'time per iteration',
      formatSeconds(seconds.value),
      `${formatSeconds(seconds.low)} to ${formatSeconds(seconds.high)}`,
    ),
    ...card('MFU', `${(100 * mfu).toFixed(1)}%`, `of ${layout.hardware.tflops} TFLOP/s`),
    ...card('tokens per second per GPU', whole(rate), `${whole(rate * layout.gpus)} on all GPUs`),
    ...card('tokens per iteration', whole(tokensPerStep(layout)), `${whole(layout.globalBatch)} sequences`),
    ...costCards({ layout, prediction }, tokens),
  );
}

function card(name: string, value: string, aside: string, mark = ''): readonly HTMLElement[] {
  return [
    el(
      'div',
      mark === '' ? {} : { class: mark },
      el('dt', {}, name),
      el('dd', {}, el('strong', {}, value), el('small', {}, aside)),
    ),
  ];
}

/** Says whether the plan fits; if the usable memory is inside the interval, only probably. */
export function fitWords(fits: boolean, low: number, high: number, usable: number): string {
  if (fits) return high <= usable ? 'yes' : 'probably';
  return low > usable ? 'no' : 'probably not';
}

function costCards(
  { layout, prediction }: Pick<PlannedInput, 'layout' | 'prediction'>,
  tokens: number | null,
): readonly HTMLElement[] {
  const planned = { layout, prediction };
  const rate = usdPerMillionTokens(planned, PRICES);
  if (rate === undefined) {
    const { name } = layout.hardware;
    const form = `"on": { "like": "${name}", "usdPerHour": 2 }`;
    return tokens === null
      ? []
      : card('cost', 'no price', `none is known for ${name}; write ${form} in all settings`);
  }
  if (tokens === null)
    return card(
      'USD per million tokens',
      rate.value.toPrecision(3),
      `at the list price of ${layout.hardware.name}`,
    );
  const cost: Cost = costOf(planned, { tokens });
  const { usd, hours, price } = cost;
  return card(
    `cost of ${tokens.toLocaleString('en-US', { notation: 'compact' })} tokens`,
    `${whole(Math.round(usd.value))} USD`,
    `${whole(Math.round(usd.low))} to ${whole(Math.round(usd.high))}; ${whole(Number(hours.value.toPrecision(3)))} hours at ${price.usdPerHour.toFixed(2)} USD per GPU hour (${price.source}, ${price.date})`,
  );
}

function whole(value: number): string {
  return value.toLocaleString('en-US');
}

/** Lists the notes that the command prints below a plan. */
export function notes({ layout, prediction, assumed, withoutEffect }: PlannedInput): HTMLElement {
  const lines = [...planNotes({ layout, prediction }), ...readingNotes({ assumed, withoutEffect })];
  return el('ul', {}, ...lines.map((line) => el('li', {}, line)));
}

/** Draws the bytes that a GPU receives in an iteration, by axis; null if it receives none. */
export function wireTable({ prediction: { time } }: PlannedInput): HTMLElement | null {
  const rows = Object.entries(time.commBytes).filter(([, bytes]) => bytes > 0);
  if (rows.length === 0) return null;
  return table(
    'Bytes that one GPU receives per iteration',
    ['axis', 'bytes'],
    rows.map(([axis, bytes]) => [AXES[axis] ?? axis, formatBytes(bytes)]),
  );
}

const AXES: Readonly<Record<string, string>> = {
  dp: 'data parallel (dp)',
  tp: 'tensor parallel (tp)',
  pp: 'pipeline (pp)',
  cp: 'context parallel (cp)',
  ep: 'expert parallel (ep)',
};
