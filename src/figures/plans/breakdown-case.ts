import type { MemoryCause } from '../../core/events';
import type { Bytes } from '../../core/units';
import type { Estimate } from '../../plan/prediction';
import { titleOf } from '../figure';
import { byteScale, inUnit } from '../format';
import { STACK_ORDER } from '../grammar/palette';

export type CauseBytes = Readonly<Partial<Record<MemoryCause, Bytes>>>;

/** What one case holds at its peak, by cause, from up to three sources. A source does not name an omitted cause. */
export interface BreakdownCase {
  /** As '8 x A100-80G, Wan 27B'. */
  readonly name: string;
  readonly documented?: CauseBytes | undefined;
  readonly predicted?: CauseBytes | undefined;
  readonly measured?: CauseBytes | undefined;
  /** Range of the predicted sum. */
  readonly predictedPeak?: Estimate | undefined;
  /** Of the card. */
  readonly capacityBytes?: Bytes | undefined;
}

export const SOURCES = ['documented', 'predicted', 'measured'] as const;
export type Source = (typeof SOURCES)[number];

/** The sum of a source's causes. */
export function totalOf(bytes: CauseBytes): Bytes {
  return STACK_ORDER.reduce((sum, cause) => sum + (bytes[cause] ?? 0), 0);
}

/** Causes as a title says them. */
const CAUSE_NOUNS: Readonly<Record<MemoryCause, string>> = {
  'param.shard': 'parameters',
  'param.full': 'gathered parameters',
  'grad.shard': 'gradients',
  'grad.full': 'whole gradients',
  optimizer: 'optimizer states',
  activation: 'activations',
  batch: 'the batch',
  comm: 'communication buffers',
  temp: 'temporaries',
};

/** What the last case shows: what the document leaves out, or whether its sum lies within the prediction. */
export function breakdownFinding(cases: readonly BreakdownCase[]): string {
  const one = cases.at(-1);
  if (one === undefined) return 'Nothing is held';
  const { documented, predicted, measured } = one;
  if (documented !== undefined && predicted !== undefined) return documentFinding(one);
  if (measured !== undefined && predicted !== undefined) return measurementFinding(one);
  const bytes = documented ?? predicted ?? measured ?? {};
  const largest = largestOf(bytes);
  const share = Math.round(((bytes[largest] ?? 0) / (totalOf(bytes) || 1)) * 100);
  return titleOf(
    `${capital(CAUSE_NOUNS[largest])} are ${share}% of the ${say(totalOf(bytes))} of ${one.name}`,
    `${capital(CAUSE_NOUNS[largest])} are ${share}% of ${say(totalOf(bytes))}`,
  );
}

function documentFinding({ documented = {}, predicted = {}, predictedPeak }: BreakdownCase): string {
  const total = say(totalOf(documented));
  const absent = STACK_ORDER.filter(
    (cause) => documented[cause] === undefined && (predicted[cause] ?? 0) > totalOf(predicted) / 50,
  );
  const [first] = [...absent].sort((a, b) => (predicted[b] ?? 0) - (predicted[a] ?? 0));
  if (first !== undefined) {
    const missing = say(predicted[first] ?? 0);
    return titleOf(
      `The documented ${total} leave out ${CAUSE_NOUNS[first]}: ${missing} are missing`,
      `The document leaves out ${CAUSE_NOUNS[first]}: ${missing}`,
    );
  }
  const value = totalOf(predicted);
  const { low, high } = predictedPeak ?? { low: value, high: value };
  const where = totalOf(documented) < low || totalOf(documented) > high ? 'outside' : 'inside';
  const range = low === high ? say(value) : `${say(low)} to ${say(high)}`;
  return titleOf(`The documented ${total} are ${where} the prediction: ${range}`);
}

function measurementFinding({ name, predicted = {}, measured = {} }: BreakdownCase): string {
  const off = STACK_ORDER.reduce(
    (all, cause) => all + Math.abs((measured[cause] ?? 0) - (predicted[cause] ?? 0)),
    0,
  );
  if (off === 0) {
    return titleOf(
      `The prediction equals the measurement of ${name} to the byte`,
      'The prediction equals the measurement to the byte',
    );
  }
  const percent = (totalOf(predicted) / (totalOf(measured) || 1) - 1) * 100;
  const sign = percent < 0 ? 'below' : 'above';
  return titleOf(
    `The prediction lies ${Math.abs(percent).toFixed(1)}% ${sign} the measured ${say(totalOf(measured))}`,
  );
}

function largestOf(bytes: CauseBytes): MemoryCause {
  return STACK_ORDER.reduce((a, b) => ((bytes[b] ?? 0) > (bytes[a] ?? 0) ? b : a));
}

function say(bytes: number): string {
  return inUnit(bytes, byteScale(bytes));
}

function capital(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}
