import { strong } from './ink';
import type { Annotation } from './plotly';

/** The title of a panel of a figure, above all panels, at the share `x` of the picture's width. */
export function panelHeading(x: number, text: string): Annotation {
  return {
    x,
    y: 1,
    xref: 'paper',
    yref: 'paper',
    text: strong(text),
    showarrow: false,
    xanchor: 'left',
    yanchor: 'bottom',
    font: { size: 12 },
  };
}
