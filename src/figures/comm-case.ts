import { ConfigError } from '../core/errors';
import type { CommCause } from '../core/events';
import type { Bytes } from '../core/units';
import { titleOf } from './figure';
import { byteScale, inUnit, listed, short } from './format';
import type { RunView } from './run-view';
import { mean } from './spread';
import { lastSteps } from './step-times';

/** What bytes on the wire are for, as figures put causes together. */
export const WIRE_GROUPS = {
  param: ['param'],
  grad: ['grad'],
  user: ['user'],
  other: ['norm', 'loss', 'buffer', 'control'],
} as const satisfies Readonly<Record<string, readonly CommCause[]>>;
export type WireGroup = keyof typeof WIRE_GROUPS;
export const WIRE_GROUP_NAMES = Object.keys(WIRE_GROUPS) as readonly WireGroup[]; // its own keys

export type WireBytes = Readonly<Record<WireGroup, Bytes>>;

/** What one run's rank receives in a step, predicted and measured: means over ranks and the last steps. */
export interface CommCase {
  readonly name: string;
  readonly measured: WireBytes;
  /** Of parameters and gradients alone. */
  readonly predicted: { readonly param: Bytes; readonly grad: Bytes } | null;
  readonly residual: Bytes | null;
  readonly numCollectives: number;
  /** Of a rank and step; null where it was not told. */
  readonly tokens: number | null;
}

/** Takes a run's last steps together. Throws: CONFIG where it has none. */
export function commCaseOf(name: string, run: RunView): CommCase {
  const records = lastSteps(run).flat();
  if (records.length === 0) throw new ConfigError(`run ${name} has no recorded step; run a step first`);
  const bytesOf = (causes: readonly CommCause[]): Bytes =>
    mean(
      records.map(({ collectives }) =>
        collectives.reduce((sum, event) => sum + (causes.includes(event.cause) ? event.wireBytes : 0), 0),
      ),
    );
  const measured: WireBytes = {
    param: bytesOf(WIRE_GROUPS.param),
    grad: bytesOf(WIRE_GROUPS.grad),
    user: bytesOf(WIRE_GROUPS.user),
    other: bytesOf(WIRE_GROUPS.other),
  };
  const predicted = run.forecast?.()?.wireBytes ?? null;
  const tokens = records.map((record) => record.tokens).filter((count) => count !== null);
  return {
    name,
    measured,
    predicted,
    residual: predicted === null ? null : residualOf(measured, predicted),
    numCollectives: mean(records.map(({ collectives }) => collectives.length)),
    tokens: tokens.length === records.length ? mean(tokens) : null,
  };
}

/** Sum of absolute differences. Means of whole bytes over ranks may be off by rounding: below half a byte is none. */
function residualOf(measured: WireBytes, predicted: { readonly param: Bytes; readonly grad: Bytes }): Bytes {
  const off = Math.abs(measured.param - predicted.param) + Math.abs(measured.grad - predicted.grad);
  return off < 0.5 ? 0 : off;
}

/** All that a rank receives. */
export function wireTotal(bytes: WireBytes): Bytes {
  return WIRE_GROUP_NAMES.reduce((sum, group) => sum + bytes[group], 0);
}

/** What a token costs on the wire; null where tokens are unknown. */
export function bytesPerToken({ measured, tokens }: CommCase): number | null {
  return tokens === null || tokens <= 0 ? null : wireTotal(measured) / tokens;
}

/** Whether runs process different numbers of tokens per step, so that bytes per step are not comparable. */
export function countsTokens(cases: readonly CommCase[]): boolean {
  const tokens = new Set(cases.map((one) => one.tokens));
  return tokens.size > 1 && !tokens.has(null);
}

/** Who receives how many times less; first of all, where a prediction is off. */
export function commFinding(cases: readonly CommCase[]): string {
  const off = cases.filter(({ residual }) => residual !== null && residual > 0);
  if (off.length > 0) {
    const most = Math.max(...off.map(({ residual }) => residual ?? 0));
    const missed = inUnit(most, byteScale(most));
    return titleOf(
      `The dry run misses ${missed} of ${listed(off.map(({ name }) => name))}`,
      `The dry run misses up to ${missed}`,
    );
  }
  const perToken = countsTokens(cases);
  const cost = (one: CommCase): number => (perToken ? (bytesPerToken(one) ?? 0) : wireTotal(one.measured));
  const least = cases.reduce((a, b) => (cost(b) < cost(a) ? b : a));
  const most = cases.reduce((a, b) => (cost(b) > cost(a) ? b : a));
  const exact = cases.some(({ residual }) => residual === 0) ? ', as predicted' : '';
  const unit = perToken ? 'per token' : 'per step';
  const said = (one: CommCase): string => inUnit(cost(one), byteScale(cost(most)));
  if (cost(most) === 0) return 'Nothing was received';
  if (cost(most) < cost(least) * 1.0005) return titleOf(`All receive alike: ${said(most)} ${unit}${exact}`);
  const many = cost(least) > 0 ? ` (${times(cost(most) / cost(least))} as much)` : '';
  return titleOf(
    `${least.name} receives ${said(least)} ${unit}, ${most.name} ${said(most)}${many}`,
    `${least.name} receives ${said(least)} ${unit}, the most is ${said(most)}${many}`,
    `Ranks receive ${said(least)} to ${said(most)} ${unit}${many}`,
  );
}

function times(factor: number): string {
  return `${factor >= 10 ? factor.toFixed(0) : short(factor)}×`;
}
