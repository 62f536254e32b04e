import { type DisplaySink, type MimeBundle, replacingDisplay, widgets } from '../../cell';
import { type DisplayBundle, now, type Seconds } from '../../core';
import { ink } from '../../figures';
import { widgetCode } from './page-code';

/** The display of steps that run. */
export interface StepsDisplay {
  /** Shows how far the steps are. */
  show(bundle: MimeBundle): void;
  /** Shows the end of the steps; what comes later replaces it. */
  end(bundle: MimeBundle): void;
}

/** Steps that have run this long get a button. */
const BUTTON_AFTER: Seconds = 0.5;

/**
 * Returns the display of steps, one output in the cell. Where a page shows widgets, the output becomes a widget with a Stop button,
 * which calls `stop`; elsewhere it is a picture and a text.
 *
 * [Note: Stop button] A widget is opened only if a page that shows widgets has connected to the kernel, and is shown only when the
 * page has loaded its code. So programs without widgets get no other messages than before.
 */
export function stepsDisplay(sink: DisplaySink | undefined, stop: (() => void) | undefined): StepsDisplay {
  const display = replacingDisplay(sink, 'shardlab-run');
  const start = now();
  let newest: MimeBundle = {};
  let isShown = false;
  let isOver = false;
  let widget: ReturnType<typeof widgets.openWidget>;
  const open = (stop: () => void): void => {
    widget = widgets.openWidget({
      esm: widgetCode(),
      state: { kind: 'steps', shown: htmlOf(newest), stored: newest, isStopped: false, isOver: false },
      heard: ({ does }) => {
        if (does === 'loaded' && !isShown && !isOver) {
          isShown = true;
          display({ ...newest, ...widget?.bundle });
        }
        if (does === 'stop' && !isOver) {
          widget?.set({ isStopped: true });
          stop();
        }
      },
    });
    widget?.set({ id: widget.id });
  };
  return {
    show(bundle) {
      newest = bundle;
      if (isShown) widget?.set({ shown: htmlOf(bundle), stored: bundle });
      else display(bundle);
      if (stop === undefined || widget !== undefined || sink?.showsWidgets !== true) return;
      if (now() - start > BUTTON_AFTER && widgets.hasWidgetPage()) open(stop);
    },
    end(bundle) {
      newest = bundle;
      isOver = true;
      widget?.set({ shown: htmlOf(bundle), stored: bundle, isOver: true });
      display(bundle);
      if (widget?.isRestored === false) widget.close();
    },
  };
}

function htmlOf({ 'text/html': html, 'text/plain': text }: DisplayBundle): string {
  return typeof html === 'string' ? html : `<pre>${ink.escapeHtml(String(text))}</pre>`;
}
