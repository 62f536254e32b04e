export { commCauses } from './comm-causes';
export { type CommTimelineOptions, commTimeline } from './comm-timeline';
export { type Comparison, compareRuns } from './compare';
export { type ExpertOptions, expertLoads } from './expert-loads';
export { createFigure, type Figure, type Quantities, type SaveOptions, type Title } from './figure';
export { counted } from './format';
export type { DataFrame } from './frame';
export { bareRowAxis, log10, logRange, logTicks, rowAxis, rowRange } from './grammar/axes';
export { escapeHtml, LIGHT, plain, safe, soft, strong } from './grammar/ink';
export { bars, dots, line, note, ruleX, SILENT } from './grammar/marks';
export { type Fill, hatch, LINE_COLORS, NEUTRAL, NEUTRAL_FILL } from './grammar/palette';
export { type Panel, plot } from './grammar/plot';
export type { Annotation, BarTrace, MarkerSymbol, ScatterTrace, Shape } from './grammar/plotly';
export { fits, textWidth, wrapped } from './grammar/text-width';
export { type Guess, sessionGuesses } from './guesses';
export { lossCurve } from './loss-curve';
export { type MemoryOptions, memoryFigure } from './memory-figure';
export { type OwnFigure, ownFigure } from './own-figure';
export type {
  Difference,
  FirstDifference,
  NamedView,
  ParityParameter,
  ParityStep,
} from './parity/parity-data';
export { type ParityFigure, parityFigure } from './parity/parity-figure';
export { pipelineGantt } from './pipeline-gantt';
export { accuracyFigure } from './plans/accuracy-figure';
export { comparePlans, type PlanComparison } from './plans/compare-plans';
export { inferenceTable } from './plans/inference-table';
export { type PlanMemoryOptions, planMemory } from './plans/plan-memory';
export { layoutWords, planNotes, planTable, readingNotes, withAssumed } from './plans/plan-table';
export { rankedLayouts } from './plans/ranked-layouts';
export { recommendationNotes, recommendationTable } from './plans/recommendation-table';
export { scalingCurve } from './plans/scaling-curve';
export type { ScalingPoint, ScalingView } from './plans/scaling-view';
export { planTime } from './plans/time-breakdown';
export { whatIfFigure } from './plans/what-if';
export type { WhatIfSetting } from './plans/what-if-settings';
export { type Numbers, type PlotOptions, type Plottable, plotNumbers } from './plot-numbers';
export { processTable } from './process-table';
export { type LossesByStep, notRecorded, type RunView } from './run-view';
export { type Column, createTable, shownAsTables, type Table } from './table';
export { type TrafficOptions, trafficMatrix } from './traffic-matrix';
export { type UnitFacts, unitsTable } from './units-table';
export { type VideoSheet, videoSheet } from './video-sheet';
