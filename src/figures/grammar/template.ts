import { LIGHT } from './ink';
import { LINE_COLORS, NEUTRAL } from './palette';
import type { Axis, Margin } from './plotly';

/** Font families, the preferred family first. Static pictures use the first family; the library has a file of this font. */
export const FONT_FAMILY =
  "Inter, system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'Noto Sans SC', 'PingFang SC', sans-serif";

/**
 * The width of pictures and of interactive figures, in pixels. Both widths are equal, so that nothing moves when a figure
 * replaces its picture.
 */
export const STATIC_WIDTH = 800;

export const TITLE_SIZE = 15;
export const SUBTITLE_SIZE = 12;

export const AXIS: Axis = {
  showgrid: true,
  gridcolor: 'rgba(128,128,128,0.22)',
  zeroline: false,
  linecolor: NEUTRAL,
  ticks: 'outside',
  ticklen: 4,
  tickcolor: NEUTRAL,
  tickfont: { size: 11, color: LIGHT.soft },
  automargin: true,
};

export const MARGIN: Margin = { l: 56, r: 16, t: 64, b: 44 };

const axis = { ...AXIS, title: { font: { size: 11 }, standoff: 8 } };

/** The style of all figures, as plotly's layout.template. */
export const TEMPLATE = {
  layout: {
    font: { family: FONT_FAMILY, size: 12, color: LIGHT.soft },
    paper_bgcolor: LIGHT.background,
    plot_bgcolor: 'rgba(0,0,0,0)',
    title: {
      x: 0,
      xanchor: 'left',
      xref: 'container',
      y: 0.985,
      yanchor: 'top',
      yref: 'container',
      pad: { l: 8, t: 6 },
      font: { size: TITLE_SIZE, weight: 600 },
      subtitle: { font: { size: SUBTITLE_SIZE } },
    },
    margin: { ...MARGIN, pad: 0, autoexpand: false },
    xaxis: axis,
    yaxis: axis,
    hovermode: 'closest',
    hoverlabel: {
      font: { family: FONT_FAMILY, size: 12, color: '#1b1b1b' },
      bgcolor: '#FFFFFF',
      bordercolor: '#8a8a8a',
      align: 'left',
      namelength: -1,
    },
    colorway: LINE_COLORS,
    showlegend: false,
    legend: {
      orientation: 'h',
      xanchor: 'left',
      yanchor: 'top',
      font: { size: 11 },
      itemsizing: 'constant',
      traceorder: 'normal',
    },
    modebar: {
      orientation: 'v',
      bgcolor: 'rgba(0,0,0,0)',
      color: 'rgba(128,128,128,.6)',
      activecolor: '#2362AC',
    },
    uniformtext: { minsize: 9, mode: 'hide' },
  },
} as const;
