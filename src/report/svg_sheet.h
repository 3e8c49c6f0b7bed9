#pragma once

#include <string>
#include <vector>

#include "report/chart.h"
#include "report/svg.h"

namespace gpt {

// Several charts in one SVG document.

// Charts below each other, each of `panel` size; the title is read out, not drawn.
std::string stacked_charts_svg(const std::string& title, const std::vector<Chart>& charts,
                               const ChartSize& panel);

// A chart drawn twice: where the picture is shown less than 560 px wide (a phone), with letters of twice the
// size. For files that are looked at anywhere.
std::string chart_for_any_screen_svg(const Chart& chart);

}  // namespace gpt
