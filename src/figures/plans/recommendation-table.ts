import { formatBytes, formatSeconds, listed } from '../../core';
import { familyOf, iterationWords, type Planned, type Recommendation } from '../../planner';
import { counted } from '../format';
import { type CellValue, type Column, createTable, numbers, type Table } from '../table';
import { layoutWords } from './plan-table';

/**
 * Makes a table of the best layouts, and below these the best layout of every other family, with the reason why the family
 * lost.
 */
export function recommendationTable(found: Recommendation): Table {
  const ranked = found.ranked.map((planned, i) => row(planned, { rank: i + 1, why: i === 0 ? 'best' : '' }));
  const losses = found.losses.map(({ best, why, undecided }) =>
    row(best, {
      rank: null,
      why: undecided === undefined ? why : `${why} (the intervals overlap)`,
    }),
  );
  const [winner] = found.ranked;
  const work = winner === undefined ? '' : `; an iteration is ${iterationWords(winner.layout)}`;
  return createTable([...ranked, ...losses], { title: recommendationTitle(found) + work, columns: COLUMNS });
}

/**
 * Returns lines that name the fewest GPUs on which a layout fits, the assumptions that decide between the best layout and
 * families with overlapping intervals, and what was not tried.
 */
export function recommendationNotes({
  request,
  losses,
  notTried,
  ranked,
  fewest,
}: Recommendation): readonly string[] {
  const families = new Map<string, string[]>();
  for (const { family, undecided } of losses) {
    if (undecided !== undefined) families.set(undecided, [...(families.get(undecided) ?? []), family]);
  }
  return [
    ...(fewest === undefined || fewest.layout.gpus === ranked[0]?.layout.gpus ? [] : [fewestWords(fewest)]),
    ...[...families].map(
      ([assumption, names]) =>
        `whether the best layout is better than ${listed(names)} depends on an assumption: ${assumption}`,
    ),
    ...(request.by === 'memory' || ranked.length === 0
      ? []
      : [`the order is that of 'up to': nine in ten runs stay below it, if the intervals are right`]),
    ...notTried.map((line) => `not tried: ${line}`),
  ];
}

/** Says on how few GPUs the model can be trained. */
function fewestWords({ layout, prediction }: Planned): string {
  return (
    `the fewest GPUs on which a layout fits: ${layout.gpus} x ${layout.hardware.name}, ${layoutWords(layout)}; ` +
    `${formatSeconds(prediction.seconds.value)} per iteration, ${formatBytes(prediction.memory.peakBytes)}`
  );
}

/** Names the winner, and how many layouts were tried. */
export function recommendationTitle({ request, ranked, numCandidates, numFitting }: Recommendation): string {
  const tried = `${counted(numCandidates, 'layout')}, ${numFitting.toLocaleString('en-US')} of them fit`;
  const [winner] = ranked;
  if (winner === undefined) return `No layout fits on ${request.gpus} GPUs (${tried})`;
  const { layout } = winner;
  return `Best by ${request.by}: ${familyOf(layout)} on ${layout.gpus} x ${layout.hardware.name} (${tried})`;
}

function row(
  { layout, prediction }: Planned,
  { rank, why }: { rank: number | null; why: string },
): LayoutRow {
  return {
    rank,
    family: familyOf(layout),
    hardware: `${layout.gpus} x ${layout.hardware.name}`,
    layout: layoutWords(layout),
    seconds: prediction.seconds.value,
    atMost: prediction.seconds.high,
    mfu: prediction.mfu,
    peakBytes: prediction.memory.peakBytes,
    fits: prediction.fits,
    why,
  };
}

type LayoutRow = Readonly<Record<string, CellValue>>;

const COLUMNS: readonly Column[] = [
  { key: 'rank', title: '', align: 'right', format: numbers(String, '') },
  { key: 'family' },
  { key: 'hardware' },
  { key: 'layout' },
  { key: 'seconds', title: 'iteration', align: 'right', format: numbers(formatSeconds, '') },
  { key: 'atMost', title: 'up to', align: 'right', format: numbers(formatSeconds, '') },
  { key: 'mfu', title: 'MFU', align: 'right', format: numbers((mfu) => `${(100 * mfu).toFixed(1)}%`, '') },
  { key: 'peakBytes', title: 'peak', align: 'right', format: numbers(formatBytes, '') },
  { key: 'why' },
];
