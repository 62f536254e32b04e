export type { CommTimelineOptions } from './comm-timeline';
export type { ExpertOptions } from './expert-loads';
export { createFigure, type Figure, type Quantities, type SaveOptions, type Title } from './figure';
export { counted } from './format';
export type { DataFrame } from './frame';
export * as axes from './grammar/axes';
export * as ink from './grammar/ink';
export * as marks from './grammar/marks';
export type { Fill } from './grammar/palette';
export * as palette from './grammar/palette';
export { type Panel, plot } from './grammar/plot';
export type { Annotation, BarTrace, MarkerSymbol, ScatterTrace, Shape } from './grammar/plotly';
export { type Guess, sessionGuesses } from './guesses';
export type { MemoryOptions } from './memory-figure';
export { type OwnFigure, ownFigure } from './own-figure';
export type {
  Difference,
  DifferingEvent,
  FirstDifference,
  NamedView,
  ParityParameter,
  ParityStep,
} from './parity/parity-data';
export { type ParityFigure, parityFigure } from './parity/parity-figure';
export type { PlanComparison } from './plans/compare-plans';
export { planFigures } from './plans/plan-figures';
export type { PlanMemoryOptions } from './plans/plan-memory';
export * as planTexts from './plans/plan-texts';
export { planNotes, planTitle, readingNotes } from './plans/plan-texts';
export * as reproducedTables from './plans/reproduced-table';
export type { ScalingPoint, ScalingView } from './plans/scaling-curve';
export type { WhatIfSetting } from './plans/what-if';
export type { SourcePlace, WalkedPoint, WalkPosition, WalkRecord } from './player/walk-record';
export { type Numbers, type PlotOptions, type Plottable, plotNumbers } from './plot-numbers';
export { type Comparison, compareRuns, runFigures } from './run-figures';
export { type LossesByStep, notRecorded, type RunView } from './run-view';
export { type Column, createTable, saveTable, shownAsTables, type Table, type TableRow } from './table';
export type { TrafficOptions } from './traffic-matrix';
export { type UnitFacts, unitsTable } from './units-table';
export { type VideoSheet, videoSheet } from './video-sheet';
