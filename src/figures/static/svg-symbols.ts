import type { Marker } from '../grammar/plotly';
import { round } from './svg-text';

const OPEN_LINE = 2;

/** One marker of a scatter trace, as plotly draws it. */
export function svgSymbol(x: number, y: number, marker: Marker): string {
  const { size, color, symbol = 'circle', line, opacity } = marker;
  const r = size / 2;
  const faded = opacity === undefined ? '' : ` opacity="${opacity}"`;
  const outline =
    line === undefined ? '' : ` stroke="${line.color ?? color}" stroke-width="${round(line.width)}"`;
  const filled = `fill="${color}"${outline}${faded}`;
  const open = `fill="none" stroke="${color}" stroke-width="${line?.width ?? OPEN_LINE}"${faded}`;
  switch (symbol) {
    case 'circle':
      return `<circle cx="${round(x)}" cy="${round(y)}" r="${round(r)}" ${filled}/>`;
    case 'circle-open':
      return `<circle cx="${round(x)}" cy="${round(y)}" r="${round(r)}" ${open}/>`;
    case 'square':
      return `<rect x="${round(x - r)}" y="${round(y - r)}" width="${round(size)}" height="${round(size)}" ${filled}/>`;
    case 'diamond-open': {
      const d = r * 1.3;
      return `<path d="M${round(x)} ${round(y - d)}L${round(x + d)} ${round(y)}L${round(x)} ${round(y + d)}L${round(x - d)} ${round(y)}Z" ${open}/>`;
    }
    case 'x': {
      const [a, b] = [r * 0.8, r * 0.4];
      const arm = `M${round(x - a)} ${round(y - a)}L${round(x + a)} ${round(y + a)}M${round(x - a)} ${round(y + a)}L${round(x + a)} ${round(y - a)}`;
      return `<path d="${arm}" fill="none" stroke="${color}" stroke-width="${round(b * 2)}"${faded}/>`;
    }
    case 'line-ew-open':
      return `<path d="M${round(x - r * 1.4)} ${round(y)}H${round(x + r * 1.4)}" ${open}/>`;
    default:
      return symbol satisfies never;
  }
}
