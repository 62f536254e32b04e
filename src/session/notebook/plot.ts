import {
  type Figure,
  type OwnFigure,
  ownFigure,
  type PlotOptions,
  type Plottable,
  plotNumbers,
} from '../../figures';

/**
 * Draws the user's own numbers in the style of all figures: lines, bars or points. Series longer than 4,000 numbers are
 * thinned, and the subtitle says so. An object with a title and plotly's traces as `data` is drawn as these traces.
 * Throws: CONFIG for values that are not numbers, and for traces that the static picture cannot show.
 * @example
 * sl.plot({ train: losses, validation: [5.1, 4.2, 3.9] }, { xTitle: 'step', yTitle: 'loss' });
 * sl.plot({ DDP: 18.1, FSDP: 10.6 }, { yTitle: 'MB' });
 * sl.plot({ title: 'Two losses', data: [{ type: 'scatter', mode: 'lines', name: 'a', x: [1, 2], y: [5, 4] }] });
 */
export function plot(data: Plottable, options?: PlotOptions): Figure;
export function plot(figure: OwnFigure): Figure;
export function plot(data: Plottable | OwnFigure, options?: PlotOptions): Figure {
  return isFigure(data) ? ownFigure(data) : plotNumbers(data, options);
}

/** A title is a text, and no series of numbers is a text. */
function isFigure(data: Plottable | OwnFigure): data is OwnFigure {
  return typeof data === 'object' && data !== null && 'title' in data && typeof data.title === 'string';
}
