#include "data/tales_grammar.h"

#include <string_view>

namespace gpt {
namespace {

// What keeps the grammar unambiguous (and the tests prove): within a table no word is the beginning of
// another, and the alternatives of a rule differ before either ends. Words that one sentence uses twice
// come from different tables.
constexpr std::string_view kWords = R"(
@girls he=she him=her his=her : Lily Mia Anna Rosa Nora Ella Ivy Clara Lucy Zoe Emma Ruth Tess Maya Kate June
@boys he=he him=him his=his : Tom Ben Max Leo Sam Finn Jack Oscar Theo Noah Paul Adam Luke Otto Ned Hans
@women he=she him=her his=her : Wendy Hazel Penny Daisy Ruby Molly Bella Greta Fay Iris Opal Vera
@men he=he him=him his=his : Hugo Felix Oliver Barney Charlie Gus Walter Basil Edgar Igor Ralph Victor
@girl : girl
@boy : boy
@animals : fox rabbit bear mouse kitten puppy duck frog hedgehog squirrel lamb pony otter panda piglet goat
@helpers : owl turtle badger hen crow mole robin beaver goose donkey sparrow toad swan heron deer eagle
@traits : little small young brave kind shy curious happy clever quiet eager gentle cheerful careful sleepy playful
@ages : old wise tall friendly round jolly gray busy polite proud tired lazy odd funny patient elegant
@looks : old green quiet lonely empty dark hidden sleepy shady windy misty sandy rocky silent
@looks2 : wide deep narrow crooked muddy grassy mossy steep bright ancient
@places : forest river meadow hill pond garden barn mill bridge lake cave beach valley village market orchard
  castle harbor tower well field stream cottage road
@places2 : fence gate oak stable church inn shed tent hut haystack fountain lighthouse chapel willow bakery school
@near : near by behind beyond beside past above below
@over : around along through across toward
@weather : warm cold windy quiet clear foggy still rainy gray misty chilly fine mild breezy bright frosty
@times : morning*3 afternoon*2 evening*2 day*2 night
@colors : red blue green yellow purple orange white black silver golden pink gray brown scarlet
@toys : kite ball drum boat hat scarf bell lantern book button ring key cup spoon flute whistle ribbon
  umbrella coin mirror feather blanket bucket comb crown map marble puppet doll sled apron needle
@bits : tiny big round shiny broken rusty wooden dusty striped painted soft heavy crooked empty old ugly
@finds : stone stick shell acorn leaf bone nut pebble brush candle rope card nail fork stamp bead pencil rag
  ladle wheel
@under : bench ladder leaf log table bush bridge stone mat pile rug tree
@behind : wall cart barrel stump hedge door chair rock curtain sack oven fern
@inside : jug chest pot boot nest box hole tub basket drawer jar trunk
@numbers : two three four five six seven eight nine
@foods : apples carrots plums pears cookies muffins nuts berries cherries pancakes turnips beans grapes peaches
  pickles dumplings buns figs radishes cakes
@bags : bag basket box drawer pocket sack trunk chest
@went : walked ran hopped skipped wandered hurried marched strolled raced tiptoed crept danced rushed sailed
@came : came flew walked marched hurried ran wandered strolled
@sad : sad worried upset scared gloomy
@sad2 : lonely cold hungry lost weak tired
@glad : happy proud merry calm pleased thankful
@glad2 : warm safe strong brave glad free
@said : said whispered cried asked called sighed
@told : replied answered laughed smiled nodded shouted
@how : slowly softly quickly gently bravely quietly loudly kindly calmly gladly proudly warmly
@fun : danced sang played laughed talked rested ate sat
@fun2 : whistled hummed painted fished slept read cooked climbed
@sounds : thunder whispers footsteps music drums howling scratching bells
@hobbies : sing dance paint fish bake climb swim read draw run
@hobbies2 : dig sew whistle hum cook jump hide ride skate nap
@made : house raft wagon tower swing bridge boat nest ladder kite
@stuff : sticks ropes stones boards nails feathers leaves bricks shells barrels
@stuff2 : mud straw wax glue clay moss string wool paint paper
@flaws : wobbled cracked leaned sank squeaked tipped shook burst
@storms : rain snow hail wind fog
@parts : paw tail nose ear back head foot side
)";

constexpr std::string_view kRules = R"(
=story
1 {opening}\nOne {weather} {time=times}, {plot}\n\n
=opening
4 Once upon a time there was {trait=traits.a} {who}. {hero.He} lived {near} the {look=looks} {place=places}. {bag}
3 Long ago, {near} the {look=looks} {place=places}, there lived {trait=traits.a} {who}. {bag}
3 {named} from the {look=looks} {place=places}. {bag}
=who
1 {kind=girl} named {hero=girls}
1 {kind=boy} named {hero=boys}
3 {kind=animals} named {name}
=name
1 {hero=girls}
1 {hero=boys}
=named
1 {hero=girls} was {trait=traits.a} {girlkind}
1 {hero=boys} was {trait=traits.a} {boykind}
=girlkind
1 {kind=girl}
3 {kind=animals}
=boykind
1 {kind=boy}
3 {kind=animals}
=bag
3 In {hero.his} {bits} {bags} {hero.he} kept {finds.a}, {numbers} {food=foods} and {color=colors.a} {toy=toys}.
2 {hero.He} had {finds.a}, {numbers} {food=foods} and {color=colors.a} {toy=toys}, and liked to {hobbies} and {hobbies2}.
2 Every {times} {hero.he} would {hobbies} or {hobbies2} with {hero.his} {color=colors} {toy=toys} and eat {food=foods}.
=plot
3 {hero} lost {lost}
3 {hero} met {meal}
2 the {storms} came and {storm}
2 {sounds} woke {fear}
2 {hero} wanted {build}
=pal
3 {age=ages.a} {helper=helpers} named {palname}
1 {age=ages.a} {helper=helpers} called {palname}
=palname
1 {pal=women}
1 {pal=men}
=spot
2 the {looks} {places}
2 the {looks2} {places2}
1 {bits.a} {behind}
=lost
1 the {toy} {near} {spot}. {search}\n{meet} {lostask}\n{lostturn} {party} {lostmoral}
=search
3 {hero.He} looked under {bits.a} {under}, behind {bits.a} {behind} and in {bits.a} {inside}, but it was gone.
2 The {kind} {went} {over} {spot} and {over} {spot}, but found only {bits.a} {finds} and {numbers} {stuff}.
2 {hero.His} {parts} hurt, and {hero.he} felt {sad} and {sad2}.
=meet
3 Then {pal} {came} {over} {spot}.
2 {near.cap} {spot} {hero.he} saw {pal}.
2 Just then {bits.a} {behind} moved, and out {came} {pal}.
=lostask
2 "Why are you {sad}?" {said} {pal}. "I lost my {color} {toy}," {told} {hero}.
2 "Where is my {color} {toy}?" {said} {hero}. "Let us look {near} {spot}," {told} {pal}.
1 "{hero}, you look {sad} and {sad2}," {said} {pal}. "My {toy} is gone," {told} {hero}.
=lostturn
3 The {helper} {how} looked in {bits.a} {inside}, and there was the {color} {toy}!
2 They {went} {over} {spot}, and {pal} {how} pulled the {toy} out of {bits.a} {inside}.
2 {pal} {went} {over} {spot} and {how} brought back the {toy}, {numbers} {finds2} and {bits.a} {finds}.
=finds2
1 {stuff}
1 {foods}
=party
3 {hero} felt {glad} and {glad2}, and they {fun} and {fun2} {near} {spot}.
2 The {kind} gave {pal} {numbers} {foods} and {bits.a} {finds}, and they {fun} {how}.
2 That {times} the {kind} and the {helper} {fun} {how} and ate {numbers} {foods}.
=lostmoral
1 A friend is worth more than {toys.a}.
1 When you ask for help, you find it.
1 So {hero} kept the {toy} close from then on.
1 Two see more than one.
1 Never again did {hero} leave the {toy} {near} {spot}.
=meal
1 {pal} {near} {spot}. {mealask}\n{mealno}\n{mealturn} {party} {mealmoral}
=mealask
2 "I am {sad2}," {said} the {helper}. "May I have some of your {food}?"
2 "I walked {over} {spot} and lost my {foods}," {said} {pal}. "Will you share your {food}?"
1 {pal} looked at the {food} and {how} {said}, "Are these all for you, {hero}?"
=mealno
3 But {hero} hid the {food} in {bits.a} {inside} and {went} away {over} {spot}. Soon {hero.he} felt {sad} and {sad2}.
2 "No, the {food} are mine," {told} {hero}, and {hero.he} {went} {over} {spot}. There {hero.he} dropped {hero.his} {toy} into {bits.a} {inside}.
=mealturn
2 So {hero.he} {went} back and {how} gave {pal} {numbers} {food} and the {color} {toy}.
2 Then {pal} {came} {over} {spot} with {hero.his} {toy}, and {hero} {how} shared the {food}.
1 At last {hero.he} {how} called {pal}, and they ate the {food} {near} {spot} with {numbers} {foods}.
=mealmoral
1 Shared {food} taste best.
1 The more you give, the more you have.
1 From then on {hero} always shared {hero.his} {food}.
1 Kind hearts are never {sad2}.
1 {hero} had fewer {food}, but one more friend.
=storm
1 took the {color} {toy} away {over} {spot}. {chase}\n{meet} {stormask}\n{stormturn} {party} {stormmoral}
=chase
3 {hero} {went} {over} {spot} and fell into {bits.a} {inside}.
2 The {kind} {how} {went} after it {over} {spot} and {over} {spot}, but was too {sad2}.
2 Soon {numbers} {stuff} lay {near} {spot}, and {hero}, {sad} and {sad2}, hid behind {bits.a} {behind}.
=stormask
2 "Hold on to {bits.a} {under}!" {said} {pal}. "Save my {toy}!" {told} {hero}.
2 "Come into my {bits} {made}, {hero}," {said} {pal}. "Not without my {toy}," {told} the {kind}.
1 "Are you {sad2}?" {said} {pal}. "Yes, and my {color} {toy} is gone," {told} {hero}.
=stormturn
3 {pal} tied {numbers} {stuff} to {bits.a} {under} and {how} pulled {hero} and the {toy} out.
2 They made {bits.a} {made} of {stuff} and {stuff2}, and under {bits.a} {behind} they found the {toy}.
2 The {helper} {how} {came} {over} {spot} with the {toy} and {numbers} {foods}.
=stormmoral
1 After every storm comes a {weather} {times}.
1 Together we are strong.
1 The {toy} was wet, but {hero} was {glad2}.
1 Since then {hero} and {pal} look at the sky first.
=fear
1 {hero}. The {kind} saw {bits.a} {finds} move {near} {spot}. {hide}\n{meet} {fearask}\n{fearturn} {party} {fearmoral}
=hide
3 {hero.He} held {hero.his} {color} {toy} and hid {near} {bits.a} {behind}, {sad} and {sad2}.
2 {sad.cap} and {sad2}, {hero.he} {how} {went} {over} {spot} and crawled under {bits.a} {under}.
=fearask
2 "I hear something {near} {spot}," {said} {hero}. "Then take your {toy} and look," {told} {pal}.
2 "Is it a monster with {colors.a} {parts}?" {said} {hero}. "Let us see," {told} {pal}, "and bring your {toy}."
1 "Why do you hide, {trait} {kind}?" {said} {pal}. "I am {sad}," {told} {hero}.
=fearturn
3 {hero} {how} {went} {over} {spot} and saw that it was only {bits.a} {behind} with {numbers} {stuff} in it.
2 With the {toy} {hero.he} {how} looked under {bits.a} {under}. There {fun} {bits.a} {animals} with {colors.a} {parts}.
2 Both {went} {over} {spot}, and behind {bits.a} {behind} they found {numbers} {bits} {stuff}.
=fearmoral
1 What you know cannot scare you.
1 Even {traits.a} heart can be brave.
1 From that {time} on {hero} was called {hero} the Brave.
1 Fear gets small when friends are near.
=build
1 to build {made=made.a} {near} {spot}. {gather}\n{meet} {buildask}\n{buildturn} {party} {buildmoral}
=gather
3 {hero.He} took {numbers} {stuff} and some {stuff2}, put {hero.his} {toy} on top, but the {made} {flaws} and {flaws2}.
2 The {kind} {how} mixed {stuff2} with {numbers} {bits} {stuff}, but the {made} {flaws}, and {hero} felt {sad}.
=flaws2
2 broke
1 fell {over} {spot}
1 fell on {bits.a} {behind}
=buildask
2 "What is this?" {said} {pal}. "It was {made.a}," {told} {hero}, "but I am too {sad2}."
2 "Your {made} needs {stuff} and {stuff2}," {said} {pal}. "Then help me," {told} {hero}.
1 "May I use the {color} {toy}?" {said} {pal}. "Yes, for my {made}," {told} the {kind}.
=buildturn
3 So they {how} carried {numbers} {stuff}, {bits.a} {inside} and {bits.a} {under} to {spot} and built the {made} again.
2 {pal} {how} held the {stuff}, {hero} fetched {stuff2} from {spot}, and soon the {made} stood.
=buildmoral
1 Try again, and it will stand.
1 Slow work is good work.
1 They painted the {made} {colors} and named it after {pal}.
1 The {color} {toy} still hangs on the {made}.
)";

}  // namespace

const Grammar& tales_grammar() {
  static const Grammar grammar(std::string(kWords) + std::string(kRules));
  return grammar;
}

}  // namespace gpt
