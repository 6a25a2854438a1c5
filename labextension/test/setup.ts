// What browsers have and jsdom has not, as far as JupyterLab's own packages ask for it while they are loaded.

class NoDrag extends MouseEvent {}

Object.assign(globalThis, {
  DragEvent: globalThis.DragEvent ?? NoDrag,
  ResizeObserver:
    globalThis.ResizeObserver ??
    class {
      observe(): void {}
      unobserve(): void {}
      disconnect(): void {}
    },
  matchMedia:
    globalThis.matchMedia ??
    (() => ({ matches: false, addListener() {}, removeListener() {} })),
  // React warns unless a test says it will wait for updates.
  IS_REACT_ACT_ENVIRONMENT: true
});

// Nothing has a size there; a list must have one to show something.
Object.defineProperty(HTMLElement.prototype, 'clientHeight', {
  get: () => 600
});
