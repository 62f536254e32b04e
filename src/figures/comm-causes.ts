import { type Bytes, COMM_CAUSES, type CommCause, sumOf } from '../core';
import { WAIT_KINDS } from '../ledger';
import {
  CAUSE_WORDS,
  commCaseOf,
  commFinding,
  commSubtitle,
  comparedCommFinding,
  comparedCommSubtitle,
  isEven,
  type Kind,
  kindsOf,
  receivedFor,
  receivedWordings,
  spoken,
} from './comm-words';
import { createFigure, type Figure, quantity } from './figure';
import { byteScale, counted, inUnit, percent, timeScale } from './format';
import { bareRowAxis, rowAxis, rowRange, titled } from './grammar/axes';
import { soft, strong, widestLabel } from './grammar/ink';
import { bars, note, PAPER, swatches } from './grammar/marks';
import { COMM_FILL, NEUTRAL_FILL, PHASE_FILL, WAIT_FILLS, WAIT_OUTLINE } from './grammar/palette';
import { type Facet, type Panel, plot, plotFacets } from './grammar/plot';
import type { BarTrace } from './grammar/plotly';
import { nameOf, type RunView } from './run-view';
import { casesOf, type Runs, wireRatio } from './runs';
import { createTable } from './table';
import { WAIT_WORDS } from './wait-words';

const ROW = 46;
/** Where the panels of bytes and times begin and end, as shares of the width. */
const SPLIT = { bytes: [0, 0.5], time: [0.64, 1] } as const;

/** Draws payload and received bytes by cause and operation, and how much of the transfer time was hidden by computation. */
export function commCauses(run: RunView): Figure {
  const kinds = kindsOf(run);
  const names = kinds.map(
    ({ cause, op, count }) => `${CAUSE_WORDS[cause]}: ${counted(Number(count.toFixed(1)), spoken(op))}`,
  );
  const most = Math.max(...kinds.flatMap(({ bytes, wireBytes }) => [bytes, wireBytes]));
  const frame = {
    top: 92,
    left: leftOf(names),
    right: 84,
    pixels: Math.max(1, kinds.length) * ROW,
    foot: 40,
  } as const;
  const numCollectives = sumOf(kinds, (kind) => kind.count);
  const wireMB = sumOf(kinds, (kind) => kind.wireBytes) / 1e6;
  const payloadMB = sumOf(kinds, (kind) => kind.bytes) / 1e6;
  return createFigure({
    runName: nameOf(run),
    title: commFinding(run, kinds),
    subtitle: commSubtitle(run, kinds),
    ...(kinds.length === 0
      ? plot(frame, [
          emptyPanel(run.world === 1 ? 'a single rank exchanges no bytes' : 'no collective was recorded'),
        ])
      : plot({ ...frame, legend: 'edge' }, [bytesPanel(kinds, most, names), timePanel(kinds)])),
    quantities: {
      numCollectives: quantity(numCollectives, '', (count) => `one step takes ${count} collectives`),
      wireMB: quantity(wireMB, 'MB', (mb) =>
        isEven(run) ? `each rank receives ${mb} per step` : `a rank receives ${mb} per step on average`,
      ),
      payloadMB: quantity(payloadMB, 'MB', (mb) => `the payload is ${mb} per rank and step`),
    },
    table: createTable(
      kinds.map(({ cause, op, count, bytes, wireBytes, outsideBytes, exposed, waits, wire, overlapped }) => ({
        cause,
        op,
        countPerStep: count,
        bytes,
        wireBytes,
        ...(outsideBytes !== undefined && { outsideBytes }),
        exposedSeconds: exposed,
        wireWaitSeconds: waits.wire,
        peerWaitSeconds: waits.peer,
        coreWaitSeconds: waits.core,
        wireSeconds: wire,
        overlappedSeconds: overlapped,
      })),
    ),
  });
}

const UPPER = -0.17;
const LOWER = 0.17;
const MARGIN = 0.55;
/** The frame of runs without collectives. */
const EMPTY = { top: 62, left: 70, right: 16, foot: 40 } as const;
/** The width, in pixels, of the room for a number at the end of a facet's longest bar. */
const END_ROOM = 48;

/** Draws the bytes of each run's kinds of collectives as a facet, with the same rows and the same axis in all facets. */
function plotKinds<C extends { readonly name: string; readonly kinds: readonly Kind[] }>(
  cases: readonly C[],
  wordings: (commCase: C) => readonly string[],
) {
  const all = cases.flatMap(({ kinds }) => kinds);
  const inOrder = COMM_CAUSES.flatMap((cause) => all.filter((kind) => kind.cause === cause));
  const keys = [...new Set(inOrder.map(keyOf))];
  if (keys.length === 0) return plot({ ...EMPTY, pixels: ROW }, [emptyPanel('no collective was recorded')]);
  const names = keys.map((key) => {
    const kind = all.find((candidate) => keyOf(candidate) === key);
    return kind === undefined ? '' : `${CAUSE_WORDS[kind.cause]}: ${spoken(kind.op)}`;
  });
  const most = Math.max(...all.flatMap(({ bytes, wireBytes }) => [bytes, wireBytes]));
  const panelsOf = ({ kinds }: C, facet: Facet): Panel[] => {
    const rows = keys.map((key) => kinds.find((kind) => keyOf(kind) === key));
    const { heading: _, aside: __, x, ...panel } = bytesPanel(rows, most, facet.isLeft ? names : null);
    const { divisor, unit } = byteScale(most);
    const room = facet.pixels / Math.max(facet.pixels - END_ROOM, END_ROOM);
    return [
      {
        ...panel,
        data: panel.data.map((trace) => ({ ...trace, showlegend: false })),
        x: {
          ...x,
          range: [0, (most / divisor) * room],
          domain: facet.across,
          ...(facet.isLow ? titled(unit, 4) : {}),
        },
        y: { ...panel.y, domain: facet.down(0, keys.length * ROW) },
      },
    ];
  };
  const causes = [...new Set(inOrder.map(({ cause }) => cause))];
  const frame = { top: 62, left: leftOf(names), right: 16, foot: 44, legend: 'edge' } as const;
  const sizes = { heading: 38, body: keys.length * ROW, between: 40, gap: 0.03 };
  return plotFacets(cases, frame, sizes, panelsOf, {
    captions: cases.map((commCase) => ({ name: commCase.name, wordings: wordings(commCase) })),
    data: [
      ...swatches(['payload held'], () => NEUTRAL_FILL),
      ...swatches(
        causes,
        (cause) => COMM_FILL[cause],
        false,
        (cause) => `received: ${CAUSE_WORDS[cause]}`,
      ),
    ],
  });
}

function keyOf({ cause, op }: Kind): string {
  return `${cause} ${op}`;
}

/** Returns the width, in pixels, of the room for the rows' names. */
function leftOf(names: readonly string[]): number {
  return Math.max(70, widestLabel(names) + 14);
}

/** Draws the payload above the received bytes, per row; `names` is null if another panel has the names. */
function bytesPanel(
  rows: readonly (Kind | undefined)[],
  most: Bytes,
  names: readonly string[] | null,
): Panel & { readonly data: readonly BarTrace[] } {
  const { divisor, unit } = byteScale(most);
  const shown = rows.flatMap((kind, at) => (kind === undefined ? [] : [{ ...kind, at }]));
  const lane = (at: number, bytes: Bytes) => ({ at, length: bytes / divisor });
  const end = (at: number, bytes: Bytes) => endNote(bytes / divisor, at, inUnit(bytes, byteScale(bytes)));
  const series = [
    {
      what: 'payload',
      style: { name: 'payload held', fill: NEUTRAL_FILL },
      items: shown.map(({ at, bytes }) => lane(at + UPPER, bytes)),
    },
    ...[...new Set(shown.map(({ cause }) => cause))].map((cause) => ({
      what: 'received',
      style: { name: `received: ${CAUSE_WORDS[cause]}`, fill: COMM_FILL[cause] },
      items: shown
        .filter((kind) => kind.cause === cause)
        .map(({ at, wireBytes }) => lane(at + LOWER, wireBytes)),
    })),
  ];
  const range = rowRange(rows.length, MARGIN, MARGIN);
  return {
    heading: 'Bytes',
    aside: `, ${unit}`,
    x: { domain: SPLIT.bytes, range: [0, (most / divisor) * 1.04 || 1] },
    y: names === null ? bareRowAxis(range) : rowAxis(names.map(strong), range),
    data: series.map(({ what, style, items }) =>
      bars(items, { ...style, width: 0.3, hover: `${what} %{x:.3f} ${unit}<extra></extra>` }),
    ),
    annotations: shown.flatMap(({ at, bytes, wireBytes }) => [
      end(at + UPPER, bytes),
      end(at + LOWER, wireBytes),
    ]),
  };
}

function timePanel(kinds: readonly Kind[]): Panel {
  const totals = kinds.map(({ exposed, overlapped }) => exposed + overlapped);
  const { divisor, unit } = timeScale(Math.max(...totals));
  const waited = WAIT_KINDS.filter((kind) => kinds.some(({ waits }) => waits[kind] > 0));
  const parts = [
    ...waited.map((kind) => ({
      name: `waits ${WAIT_WORDS[kind]}`,
      style: { fill: WAIT_FILLS[kind], line: WAIT_OUTLINE },
      of: ({ waits }: Kind) => waits[kind],
    })),
    {
      name: 'travels while ranks compute',
      style: { fill: { color: PHASE_FILL.forward.color } },
      of: ({ overlapped }: Kind) => overlapped,
    },
  ];
  return {
    heading: 'Time',
    aside: `, ${unit}`,
    x: { domain: SPLIT.time, range: [0, (Math.max(...totals) / divisor) * 1.04 || 1] },
    y: bareRowAxis(rowRange(kinds.length, MARGIN, MARGIN)),
    data: parts.map(({ name, style, of }, i) => {
      const items = kinds.map((kind, at) => {
        const before = sumOf(parts.slice(0, i), (part) => part.of(kind));
        return { at, length: of(kind) / divisor, from: before / divisor };
      });
      return bars(items, { ...style, name, width: 0.42, hover: `${name} %{x:.3f} ${unit}<extra></extra>` });
    }),
    annotations: kinds.map(({ exposed }, i) => {
      const total = totals[i] ?? 0;
      const share = total > 0 ? `${percent(exposed / total)} waits` : '0 s';
      return endNote(total / divisor, i, share);
    }),
  };
}

function endNote(x: number, y: number, text: string) {
  return note(x, y, soft(text), { xshift: 2, font: { size: 10 } });
}

function emptyPanel(text: string): Panel {
  const place = { ...PAPER, xanchor: 'center', font: { size: 12 } } as const;
  return { x: { visible: false }, y: { visible: false }, annotations: [note(0.45, 0.5, soft(text), place)] };
}

/** The causes that have no column of their own in the table. */
const OTHERS: readonly CommCause[] = ['norm', 'loss', 'buffer', 'control'];

/**
 * Draws the collectives of each run as a facet, by cause and operation; the caption has the bytes that a rank receives per step,
 * and per token if the runs' steps have different numbers of tokens. Throws: CONFIG without runs or steps.
 */
export function compareComm(runs: Runs): Figure {
  const cases = casesOf(runs, commCaseOf);
  return createFigure({
    title: comparedCommFinding(cases),
    subtitle: comparedCommSubtitle(runs, cases),
    ...plotKinds(cases, (commCase) => receivedWordings(commCase, cases)),
    quantities: { wireRatio: wireRatio(cases.map(({ total }) => total)) },
    table: createTable(
      cases.map(({ name, kinds, outside, predicted, residual, numCollectives, tokens, perToken }) => ({
        run: name,
        ...(outside !== null && { outsideBytes: outside, wireSeconds: sumOf(kinds, ({ wire }) => wire) }),
        paramBytes: receivedFor(kinds, 'param'),
        gradBytes: receivedFor(kinds, 'grad'),
        activationBytes: receivedFor(kinds, 'activation'),
        userBytes: receivedFor(kinds, 'user'),
        otherBytes: receivedFor(kinds, ...OTHERS),
        predictedParamBytes: predicted?.param ?? null,
        predictedGradBytes: predicted?.grad ?? null,
        residualBytes: residual,
        numCollectives,
        tokens,
        bytesPerToken: perToken,
      })),
    ),
  });
}
