// Creates all views and starts the page.

function start() {
  drawOverview();
  drawStrip();
  diagramView();
  positionView();
  if (L > 0) {  // these views are empty for a model without layers
    streamView();
    attentionView();
    flowView();
  }
  lensView();
  nextView();
  treemapView();
  matrixView();
  startTheme();
  followNav();
  if (location.hash === '#selftest') selfTest();
}
start();
