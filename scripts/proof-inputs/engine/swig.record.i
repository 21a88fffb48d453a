// SPDX-License-Identifier: MIT OR Apache-2.0
%module shapes
%{
#include "shapes.h"
%}
%rename(at) Path::operator[];
%ignore Path::scratch;
enum Colour { Red, Green = 5, Blue };
struct Point { double x, y; Point(double x = 0, double y = 0); Point operator+(const Point &other) const; double length() const; };
class Shape {
public:
    virtual ~Shape();
    virtual double area() const = 0;
    virtual const char *name() const { return "shape"; }
    static int count;
    Colour colour;
};
class Circle : public Shape {
public:
    Circle(const Point &middle, double radius);
    double area() const;
    Point middle() const;
};
class Path : public Shape {
public:
    Path();
    void add(const Point &point, int at = -1);
    Point &operator[](int at);
    int size() const;
    double area() const;
    double *scratch;
};
%extend Path { Path copy() const { return *self; } }
template <class T> class Pair { public: T first, second; Pair(T one, T other); T larger() const; };
%template(IntPair) Pair<int>;
%template(PointPair) Pair<Point>;
double distance(const Point &one, const Point &other);
int overload(int number);
int overload(double number, const char *text);
